//! Whether processes that say nothing are at work all the same: they use the processor, or wait for an
//! answer from the network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::orphans::processes_with_marks;
use crate::procfs::Stat;
use crate::survivor::Survivor;

/// So much of the processor's time, in clock ticks, is what any program uses that only waits.
const NOISE: u64 = 1;
/// A share of the time of one processor that is work, whatever it is for.
const WORK_PER_MILLE: u64 = 20;
/// The kernel counts a program's time in ticks of this length, on every architecture.
const TICK_MS: u64 = 10;
/// States of a socket, as the tables in `/proc/net` name them: `ESTABLISHED`, for UDP a peer is set, and
/// `SYN_SENT`.
const CONNECTED: [&str; 2] = ["01", "02"];

/// Returns the processes of this iteration that are there now: those that were started with its
/// `RALPH_RUN_ID` and `RALPH_ITERATION`, and their descendants.
#[must_use]
pub fn iteration_processes(run: &str, iteration: u64) -> Vec<Survivor> {
    processes_with_marks(run, iteration).into_iter().map(Survivor::from).collect()
}

/// Whether the processes of this iteration use the processor during `window`, or have a connection of the
/// network open. Blocks for the window, unless a connection is open.
#[must_use]
pub fn are_busy(run: &str, iteration: u64, window: Duration) -> bool {
    let before = processes_with_marks(run, iteration);
    if before.iter().any(|process| is_connected(process.pid)) {
        return true;
    }
    std::thread::sleep(window);
    let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    let work = window_ms.saturating_mul(WORK_PER_MILLE) / (1000 * TICK_MS);
    ticks_between(&before, &processes_with_marks(run, iteration)) > work.max(NOISE)
}

/// The processor's time that was used between two looks, in clock ticks.
fn ticks_between(before: &[Stat], after: &[Stat]) -> u64 {
    let known: BTreeMap<(i32, u64), &Stat> =
        before.iter().map(|process| ((process.pid, process.started), process)).collect();
    let used = |process: &Stat| match known.get(&(process.pid, process.started)) {
        // A child that has ended is seen no more; what it used is its parent's now.
        Some(then) => process
            .own_ticks
            .saturating_sub(then.own_ticks)
            .saturating_add(process.child_ticks.saturating_sub(then.child_ticks)),
        None => process.own_ticks,
    };
    after.iter().map(used).fold(0, u64::saturating_add)
}

/// Whether a process holds a socket that is connected over the network, or is being connected.
fn is_connected(pid: i32) -> bool {
    let held = sockets(pid);
    if held.is_empty() {
        return false;
    }
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        table.lines().filter_map(connected_inode).any(|inode| held.contains(inode))
    })
}

/// The inodes of the sockets that a process holds.
fn sockets(pid: i32) -> BTreeSet<String> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeSet::new() };
    folder
        .filter_map(|entry| {
            let target = fs::read_link(entry.ok()?.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect()
}

/// The inode in a line of a table of sockets, if its socket is connected.
fn connected_inode(line: &str) -> Option<&str> {
    // sl, local address, remote address, state, queues, timer, retransmits, uid, timeout, inode.
    let mut fields = line.split_ascii_whitespace().skip(3);
    let state = fields.next()?;
    let inode = fields.nth(5)?;
    CONNECTED.contains(&state).then_some(inode)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::{Child, Command, Stdio};

    use super::*;

    const WINDOW: Duration = Duration::from_millis(500);

    fn own() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    /// A process of iteration 1 of a run of its own that has said that it is there.
    fn start(test: &str, script: &str) -> (Child, String) {
        let run = format!("activity-{test}-{}", std::process::id());
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .envs([("RALPH_RUN_ID", run.as_str()), ("RALPH_ITERATION", "1")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (child, run)
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn who_sleeps_is_not_busy_and_who_computes_is() {
        let (sleeper, run) = start("sleeps", "echo; exec sleep 1000");
        assert!(!are_busy(&run, 1, WINDOW));
        assert!(!are_busy(&run, 2, WINDOW), "there is no such iteration");
        end(sleeper);
        let (worker, run) = start("works", "echo; while :; do :; done");
        assert!(are_busy(&run, 1, WINDOW));
        assert_eq!(iteration_processes(&run, 1).len(), 1);
        end(worker);
        // All of the work is done by children that have ended by the time of the second look.
        let forks = "echo; i=0; while [ $i -lt 100000 ]; do /bin/true; i=$((i + 1)); done";
        let (forker, run) = start("forks", forks);
        assert!(are_busy(&run, 1, WINDOW));
        end(forker);
    }

    #[test]
    fn only_a_connection_is_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let table = |name: &str| fs::read_to_string(format!("/proc/{}/net/{name}", own())).unwrap();
        let port = format!(":{:04X} ", address.port());
        let mine = |name: &str| -> Vec<bool> {
            let table = table(name);
            let lines = table.lines().filter(|line| line.contains(&port));
            lines.map(|line| connected_inode(line).is_some()).collect()
        };
        assert_eq!(mine("tcp"), [false], "it listens");
        let client = TcpStream::connect(address).unwrap();
        assert!(mine("tcp").contains(&true));
        assert!(is_connected(own()));
        drop(client);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = format!(":{:04X} ", udp.local_addr().unwrap().port());
        let connected = || {
            let table = table("udp");
            table.lines().filter(|line| line.contains(&port)).any(|l| connected_inode(l).is_some())
        };
        assert!(!connected());
        udp.connect(address).unwrap();
        assert!(connected());
    }

    #[test]
    fn a_line_that_is_none_holds_no_inode() {
        for line in ["", "  sl  local_address", "a b c 01", "a b c 07 e f g h i 12345"] {
            assert_eq!(connected_inode(line), None, "{line:?}");
        }
        assert_eq!(connected_inode("0: A:1 B:2 01 0:0 00:0 0 0 0 4711 1"), Some("4711"));
    }

    #[test]
    fn work_is_counted_over_processes_that_come_and_go() {
        let stat = |pid, own_ticks, child_ticks| Stat {
            pid,
            name: String::new(),
            zombie: false,
            is_outlived: false,
            stopped: false,
            parent: 1,
            group: 1,
            session: 1,
            started: 5,
            own_ticks,
            child_ticks,
        };
        let before = [stat(1, 100, 50), stat(2, 9, 0)];
        assert_eq!(ticks_between(&before, &before), 0);
        assert_eq!(ticks_between(&before, &[stat(1, 101, 59), stat(3, 4, 99)]), 1 + 9 + 4);
        let another = Stat { started: 6, ..stat(1, 3, 0) };
        assert_eq!(ticks_between(&before, &[another]), 3, "it has only the same pid");
    }
}
