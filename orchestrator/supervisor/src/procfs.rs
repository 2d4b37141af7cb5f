//! The processes there are, as `/proc` tells it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// The bytes of a command line that are read.
const LONGEST_COMMAND_LINE: usize = 160;

/// The flag of a thread that is ending, `PF_EXITING` of the kernel.
const EXITING: u64 = 0x4;
/// SIGKILL in a set of signals: what the threads of a process are sent when one of them ends it.
const KILL: u64 = 1 << 8;

/// A process, as it was a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    /// The kernel's name for it, at most 15 bytes.
    pub(crate) name: String,
    /// It ended, with all of its threads, and its parent has not yet asked how.
    pub(crate) zombie: bool,
    /// Its first thread has ended, and others run on.
    pub(crate) is_outlived: bool,
    /// It was stopped, as by SIGSTOP.
    pub(crate) stopped: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// When it started, in clock ticks since boot: with the pid it names a process for good.
    pub(crate) started: u64,
    /// The processor's time that it has used itself, in clock ticks.
    pub(crate) own_ticks: u64,
    /// That of its children that have ended.
    pub(crate) child_ticks: u64,
}

/// The process with this pid, unless there is none.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
    // Files here have no size, and to read with a buffer that grows from nothing took as long as all the rest.
    let mut line = Vec::with_capacity(1024);
    file.read_to_end(&mut line).ok()?;
    parse(pid, &line)
}

fn parse(pid: i32, line: &[u8]) -> Option<Stat> {
    // The name may hold anything, spaces and parentheses too; no later field holds a parenthesis.
    let open = memchr::memchr(b'(', line)?;
    let close = memchr::memrchr(b')', line)?;
    let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let (ended, stopped) = (matches!(state, "Z" | "X"), state == "T");
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // Fields 14 to 17, 20 and 22 of proc(5); the sixth is the last one read.
    let mut ticks = fields.by_ref().skip(7).take(4).map(|field| field.parse::<u64>().ok());
    let own_ticks = ticks.next()??.saturating_add(ticks.next()??);
    let child_ticks = ticks.next()??.saturating_add(ticks.next()??);
    drop(ticks);
    // The state is that of the first thread, which others may outlive.
    let threads: u64 = fields.nth(2)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Stat {
        pid,
        name,
        zombie: ended && threads <= 1,
        is_outlived: ended && threads > 1,
        stopped,
        parent,
        group,
        session,
        started,
        own_ticks,
        child_ticks,
    })
}

/// Whether any thread of a process is not about to end.
pub(crate) fn has_living_thread(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|thread| thread.path()).any(|thread| {
        let read = |file| fs::read(thread.join(file)).unwrap_or_default();
        let [stat, status] = ["stat", "status"].map(read);
        is_living(&String::from_utf8_lossy(&stat), &String::from_utf8_lossy(&status))
    })
}

/// Whether a thread is not about to end, by its lines of proc(5). Of one that has ended both are empty.
fn is_living(stat: &str, status: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_ascii_whitespace();
    let ended = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    // Field 9 of proc(5).
    let exiting = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    !ended
        && exiting.is_some_and(|flags| flags & EXITING == 0)
        && pending.is_some_and(|set| set & KILL == 0)
}

/// Returns the beginning of a process's command line; a zombie has none.
pub(crate) fn command_line(pid: i32) -> Option<String> {
    let mut line = Vec::with_capacity(LONGEST_COMMAND_LINE);
    let most = u64::try_from(LONGEST_COMMAND_LINE).ok()?;
    File::open(format!("/proc/{pid}/cmdline")).ok()?.take(most).read_to_end(&mut line).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned();
    Some(line).filter(|line| !line.is_empty())
}

/// Returns now as the time of a process's start is told: in clock ticks since boot.
#[must_use]
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or_default() * 100 + nanos.unwrap_or_default() / 10_000_000
}

/// All processes.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// The children of a process, zombies included, without a scan of all processes where the kernel lists them.
pub(crate) fn children(parent: i32) -> Vec<Stat> {
    if lists_children(parent) {
        child_pids(parent).into_iter().filter_map(stat).collect()
    } else {
        let mut all = all();
        all.retain(|process| process.parent == parent);
        all
    }
}

/// The descendants of a process, zombies included. One that is forked meanwhile may be missing.
pub(crate) fn descendants(root: i32) -> Vec<Stat> {
    if lists_children(root) { descendants_by(root, child_pids) } else { descendants_by_scan(root) }
}

/// Kernels without CONFIG_PROC_CHILDREN lack the file.
fn lists_children(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/task/{pid}/children")).exists()
}

fn descendants_by_scan(root: i32) -> Vec<Stat> {
    let all = all();
    descendants_by(root, |parent| {
        all.iter().filter(|p| p.parent == parent).map(|p| p.pid).collect()
    })
}

fn descendants_by(root: i32, children: impl Fn(i32) -> Vec<i32>) -> Vec<Stat> {
    let mut seen = HashSet::from([root]);
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if seen.insert(child) {
                parents.push(child);
                found.extend(stat(child));
            }
        }
    }
    found
}

/// Whether the calling thread has no other child than this one. False if that cannot be told.
pub(crate) fn only_child(child: i32) -> bool {
    let list = fs::read_to_string("/proc/thread-self/children");
    list.is_ok_and(|list| list.trim().parse() == Ok(child))
}

/// The children of all threads of a process.
fn child_pids(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|list| {
            list.split_ascii_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_bad_bytes() {
        let mut line = b"7 (a) Z (\xff) S 1 2 3 0 -1 0 0 0 0 0 7 1 40 2 20 0 1 0 4711 0".to_vec();
        let stat = parse(7, &line).unwrap();
        assert_eq!(stat.name, "a) Z (\u{fffd}");
        assert!(!stat.zombie && !stat.stopped);
        assert_eq!((stat.parent, stat.group, stat.session, stat.started), (1, 2, 3, 4711));
        assert_eq!((stat.own_ticks, stat.child_ticks), (8, 42));
        let zombie = |threads: &str| {
            let line = format!("7 (a) Z 1 2 3 0 -1 0 0 0 0 0 7 1 40 2 20 0 {threads} 0 4711 0");
            parse(7, line.as_bytes()).unwrap().zombie
        };
        assert!(zombie("1") && zombie("0") && !zombie("2"), "its first thread ended, and not all");
        line.truncate(20);
        assert_eq!(parse(7, &line), None);
        assert_eq!(parse(7, b""), None);
        assert_eq!(parse(7, b")("), None);
    }

    #[test]
    fn a_thread_lives_until_it_ends_or_is_told_to() {
        let cases = [
            ("S", 0x40_0040, 0, true),
            ("D", 0x40_0040, 1 << 14, true),
            ("Z", 0x40_0040, 0, false),
            ("R", 0x40_0044, 0, false),
            ("R", 0x40_0040, 1 << 8, false),
        ];
        for (state, flags, pending, living) in cases {
            let stat = format!("7 (a) Z) {state} 1 2 3 0 -1 {flags} 0 0 0 0 7 1 40 2 20 0 2");
            let status = format!("Name:\ta) Z\nThreads:\t2\nSigPnd:\t{pending:016x}\nShdPnd:\t0\n");
            assert_eq!(is_living(&stat, &status), living, "{stat} {status}");
        }
        assert!(!is_living("", ""), "it is not there any more");
        assert!(has_living_thread(i32::try_from(std::process::id()).unwrap()));
    }

    #[test]
    fn now_and_the_time_of_a_start_have_one_unit() {
        let before = now();
        let mut child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let started = stat(i32::try_from(child.id()).unwrap()).unwrap().started;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(before <= started && started <= now(), "{before} {started}");
    }

    #[test]
    fn both_ways_find_children_and_grandchildren() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 1000 & echo $!; read x; kill $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild: i32 = line.trim().parse().unwrap();
        let child_pid = i32::try_from(child.id()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        for found in [descendants(own), descendants_by_scan(own)] {
            let pids: Vec<_> = found.iter().map(|p| p.pid).collect();
            assert!(pids.contains(&child_pid) && pids.contains(&grandchild), "{found:?}");
        }
        let pids: Vec<_> = children(own).iter().map(|p| p.pid).collect();
        assert!(pids.contains(&child_pid) && !pids.contains(&grandchild), "{pids:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(descendants(own).iter().all(|p| p.pid != child_pid));
    }
}
