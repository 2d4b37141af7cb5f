//! Orphans of a tree whose shim and orchestrator were killed at the same time.
//!
//! The kernel kills the leader then, and its descendants are no longer known by parentage. They are
//! identified by variables of the environment that they were started with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::process::{Signal, geteuid, getpid};

use crate::adoption::Adoption;
use crate::procfs::{self, Stat};
use crate::shim::signal;
use crate::survivor::Survivor;

/// The environment variables that identify the processes of an iteration.
const RUN_ID: &str = "RALPH_RUN_ID";
const ITERATION: &str = "RALPH_ITERATION";

/// The time after which it gives up. A killed process is gone in milliseconds, unless it waits for a dead
/// disk, or others are started all the time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between scans.
const SCAN_INTERVAL: Duration = Duration::from_millis(5);
/// The number of consecutive empty scans needed once a process was found.
const EMPTY_SCANS: u32 = 2;
/// The number of consecutive empty scans that suffice even if processes are started all the time: a single
/// scan may miss what is forked during it.
const MAX_EMPTY_SCANS: u32 = 40;

/// The result of ending orphans, by the kernel's names of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanCleanup {
    /// The processes that were ended.
    pub ended: Vec<String>,
    /// The processes that still lived after 10 s.
    pub survived: Vec<Survivor>,
}

/// Processes by pid and start.
type Found = BTreeMap<(i32, u64), Stat>;

/// Whether a process is an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrphanMatch {
    Match,
    Other,
    /// It is executing another program, and has no readable environment yet.
    InExec,
}

/// Kills all processes of this user that were started with `name=value` in their environment, until none is
/// left; never the caller or its ancestors. Blocks: for one scan of all processes if there is none to kill,
/// and for 10 s at most.
///
/// Processes that were started with another environment, as by `env -i`, are not found.
#[must_use]
pub fn end_orphans(name: &str, value: &str) -> OrphanCleanup {
    let (marks, spared) = ([format!("{name}={value}")], self_and_ancestors());
    end_all(|| scan(&marks, &spared))
}

/// Kills the orphans of an unsupervised tree: processes in the leader's session, those that were started with
/// all of `marks` in their environment, those that this process has adopted, and the descendants of all these.
pub(crate) fn end_tree(
    leader: Option<i32>,
    marks: &[String],
    adoption: &Adoption,
) -> OrphanCleanup {
    let spared = self_and_ancestors();
    end_all(|| {
        let (mut found, settled) = scan(marks, &spared);
        // The session first: what one of it leaves when it ends in between is adopted by then.
        let in_session = leader.map(session).unwrap_or_default();
        let (adopted, complete) = adoption.orphans();
        let others = in_session.into_iter().chain(adopted);
        found.extend(others.map(|one| ((one.pid, one.started), one)));
        add_descendants(&mut found, &spared);
        (found, settled && complete)
    })
}

/// Returns the variables of this environment that identify an iteration, as `NAME=value`.
pub(crate) fn marks(env: &BTreeMap<String, String>) -> Vec<String> {
    match env.get(RUN_ID) {
        Some(run) => iteration_marks(run, env.get(ITERATION).map(String::as_str)),
        None => Vec::new(),
    }
}

fn iteration_marks(run: &str, iteration: Option<&str>) -> Vec<String> {
    let number = iteration.map(|number| format!("{ITERATION}={number}"));
    std::iter::once(format!("{RUN_ID}={run}")).chain(number).collect()
}

/// Returns the processes of this iteration: those that were started with its marks in their environment and
/// their descendants, without the caller and its ancestors.
pub(crate) fn processes_with_marks(run: &str, iteration: u64) -> Vec<Stat> {
    let spared = self_and_ancestors();
    let marks = iteration_marks(run, Some(&iteration.to_string()));
    let (mut found, _) = scan(&marks, &spared);
    add_descendants(&mut found, &spared);
    found.into_values().collect()
}

/// Kills the processes in the leader's session.
pub(crate) fn kill_session(leader: i32) {
    for process in session(leader) {
        signal(&process, Signal::KILL);
    }
}

fn session(leader: i32) -> Vec<Stat> {
    let mut session = procfs::all();
    session.retain(|process| process.session == leader && !process.zombie);
    session
}

fn add_descendants(found: &mut Found, spared: &BTreeSet<i32>) {
    let below: Vec<Stat> = found.keys().flat_map(|(pid, _)| procfs::descendants(*pid)).collect();
    let living = below.into_iter().filter(|one| !one.zombie && !spared.contains(&one.pid));
    found.extend(living.map(|one| ((one.pid, one.started), one)));
}

/// Kills the processes that `scan` finds until it finds none. `scan` also returns whether it was complete.
fn end_all(mut scan: impl FnMut() -> (Found, bool)) -> OrphanCleanup {
    let until = Instant::now() + TIMEOUT;
    let (mut all, mut empty_scans) = (Found::new(), 0);
    loop {
        let (found, settled) = scan();
        empty_scans = if found.is_empty() { empty_scans + 1 } else { 0 };
        all.extend(found.clone());
        let enough = if all.is_empty() { 1 } else { EMPTY_SCANS };
        let ended = (settled && empty_scans >= enough) || empty_scans >= MAX_EMPTY_SCANS;
        if ended || Instant::now() >= until {
            all.retain(|process, _| !found.contains_key(process));
            return OrphanCleanup {
                ended: all.into_values().map(|process| process.name).collect(),
                survived: found.into_values().map(Survivor::from).collect(),
            };
        }
        for process in found.values() {
            signal(process, Signal::KILL);
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
}

/// Scans all processes. Returns those with the marks, none without any marks, and whether every process could be
/// classified and none was started meanwhile.
fn scan(marks: &[String], spared: &BTreeSet<i32>) -> (Found, bool) {
    let newest = newest_pid();
    let (mut found, mut settled) = (Found::new(), true);
    for process in procfs::all().into_iter().filter(|process| !spared.contains(&process.pid)) {
        match match_process(process.pid, marks) {
            OrphanMatch::Match => drop(found.insert((process.pid, process.started), process)),
            OrphanMatch::InExec => settled = false,
            OrphanMatch::Other => {}
        }
    }
    (found, settled && newest == newest_pid())
}

/// Returns the pid that was assigned last.
fn newest_pid() -> Option<String> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back().map(str::to_owned)
}

/// Whether a process is this user's and was started with all of `marks`. A zombie without other threads is not.
fn match_process(pid: i32, marks: &[String]) -> OrphanMatch {
    let path = format!("/proc/{pid}");
    // The superuser could read other users' environments.
    let own = fs::metadata(&path).is_ok_and(|process| process.uid() == geteuid().as_raw());
    if !own {
        return OrphanMatch::Other;
    }
    let mut environ = fs::read(format!("{path}/environ")).unwrap_or_default();
    if environ.is_empty() {
        let stat = fs::read(format!("{path}/stat")).unwrap_or_default();
        if is_in_exec(&stat) {
            return OrphanMatch::InExec;
        }
        if is_outlived(&stat) {
            environ = environ_of_threads(&path);
        }
    }
    if !marks.is_empty() && marks.iter().all(|mark| has_variable(&environ, mark)) {
        OrphanMatch::Match
    } else {
        OrphanMatch::Other
    }
}

/// Whether the first thread of a process has ended, which leaves it without the environment.
fn is_outlived(stat: &[u8]) -> bool {
    let state = memchr::memrchr(b')', stat).and_then(|close| stat.get(close + 2));
    state == Some(&b'Z')
}

/// The environment of a process, by its threads: the first that has one.
fn environ_of_threads(path: &str) -> Vec<u8> {
    let threads = fs::read_dir(format!("{path}/task")).into_iter().flatten().flatten();
    let mut found = threads.filter_map(|thread| fs::read(thread.path().join("environ")).ok());
    found.find(|environ| !environ.is_empty()).unwrap_or_default()
}

fn has_variable(environ: &[u8], variable_text: &str) -> bool {
    environ.split(|byte| *byte == 0).any(|variable| variable == variable_text.as_bytes())
}

/// Whether a process has memory, but its environment is not set up yet: a short time, unless the machine is
/// overloaded.
fn is_in_exec(stat: &[u8]) -> bool {
    let Some(close) = memchr::memrchr(b')', stat) else { return false };
    let rest = String::from_utf8_lossy(stat.get(close..).unwrap_or_default());
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Fields 23 (size of the memory) and 51 (end of the environment) of proc(5); the first here is 2.
    fields.get(21).is_some_and(|size| *size != "0") && fields.get(49) == Some(&"0")
}

fn self_and_ancestors() -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut next = Some(getpid().as_raw_pid());
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = procfs::stat(pid).map(|process| process.parent);
    }
    found
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    const NAME: &str = "RALPH_ORPHANS_TEST";

    /// A process that is there as soon as this returns, and the numbers that it prints.
    fn start(value: &str, script: &str) -> (Child, Vec<i32>) {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .env(NAME, value)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.split_whitespace().map(|pid| pid.parse().unwrap()).collect())
    }

    fn nobody() -> Adoption {
        Adoption::new(None, u64::MAX)
    }

    fn value(test: &str) -> String {
        format!("{test}-{}", std::process::id())
    }

    fn there(pid: i32) -> bool {
        procfs::stat(pid).is_some_and(|process| !process.zombie)
    }

    #[test]
    fn ends_who_was_started_with_it_wherever_it_went_and_nobody_else() {
        let value = value("mine");
        let longer = format!("{value}0");
        // Deaf to what can be ignored, in sessions of their own, stopped, and forked without an exec.
        let script = "trap '' HUP INT TERM
            setsid sh -c 'trap \"\" HUP INT TERM; (while :; do sleep 1000; done) & kill -STOP $$' >/dev/null &
            (while :; do sleep 1000; done) >/dev/null & echo $$ $!; while :; do sleep 1000; done";
        let (mut mine, pids) = start(&value, script);
        let (mut other, _) = start(&longer, "echo; exec sleep 1000");
        let report = end_orphans(NAME, &value);
        assert_eq!(report.survived, []);
        assert!(report.ended.len() >= 3 && report.ended.contains(&"sh".to_owned()), "{report:?}");
        assert!(pids.iter().all(|pid| !there(*pid)));
        assert_eq!(scan(&[format!("{NAME}={value}")], &BTreeSet::new()).0, Found::new());
        assert!(other.try_wait().unwrap().is_none(), "a longer value is another one");
        assert_eq!(end_orphans(NAME, &value), OrphanCleanup::default(), "a zombie is none");
        mine.wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn ends_a_chain_that_is_always_another_process() {
        let value = value("chain");
        let path = std::env::temp_dir().join(&value);
        let text = "[ \"$1\" ] || echo\nexec >/dev/null\nsetsid sh \"$0\" again &\n";
        fs::write(&path, text).unwrap();
        let (mut first, _) = start(&value, &format!("exec sh '{}'", path.display()));
        let report = end_orphans(NAME, &value);
        fs::remove_file(&path).unwrap();
        first.wait().unwrap();
        assert_eq!(report.survived, []);
        assert_eq!(scan(&[format!("{NAME}={value}")], &BTreeSet::new()).0, Found::new());
    }

    #[test]
    fn who_is_becoming_another_program_is_distinguished_from_who_has_no_environment() {
        let stat = |size: u64, end: u64| {
            let middle = ["0"; 27].join(" ");
            format!("7 (a) 1 2 S) R {} {size} {middle} {end} 0", ["1"; 19].join(" "))
        };
        assert!(is_in_exec(stat(4096, 0).as_bytes()));
        assert!(!is_in_exec(stat(4096, 1).as_bytes()), "an empty environment has a place");
        assert!(!is_in_exec(stat(0, 0).as_bytes()), "a zombie and a kernel thread have no memory");
        assert!(!is_in_exec(b"") && !is_in_exec(b"7 (a) R 1"));
        // The places in the line are right for the kernel that runs.
        let own = fs::read("/proc/self/stat").unwrap();
        assert!(!is_in_exec(&own));
        let mut bare = Command::new("/bin/sleep").arg("1000").env_clear().spawn().unwrap();
        let pid = i32::try_from(bare.id()).unwrap();
        while match_process(pid, &["x=y".to_owned()]) == OrphanMatch::InExec {}
        assert_eq!(match_process(pid, &["x=y".to_owned()]), OrphanMatch::Other);
        bare.kill().unwrap();
        bare.wait().unwrap();
    }

    #[test]
    fn spares_the_caller_and_who_is_above_it() {
        let spared = self_and_ancestors();
        assert!(spared.contains(&getpid().as_raw_pid()) && spared.contains(&1), "{spared:?}");
        // Without that it would find this very process by what it was started with.
        let (name, value) = std::env::vars().find(|(_, value)| !value.is_empty()).unwrap();
        let own = getpid().as_raw_pid();
        assert!(
            scan(&[format!("{name}={value}")], &BTreeSet::new())
                .0
                .keys()
                .any(|(pid, _)| *pid == own)
        );
        assert!(scan(&[format!("{name}={value}")], &spared).0.keys().all(|(pid, _)| *pid != own));
    }

    #[test]
    fn a_tree_is_known_by_all_of_its_marks_and_by_descent() {
        let run = value("tree");
        let start = |iteration: u64, script: &str| {
            let mut child = Command::new("/bin/sh")
                .args(["-c", script])
                .envs([(RUN_ID, run.clone()), (ITERATION, iteration.to_string())])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            (child, line.trim().parse::<i32>().unwrap())
        };
        let bare = "setsid env -i sh -c 'echo $$; exec sleep 1000' & exec >&-; wait";
        let (mut mine, without) = start(3, bare);
        let (mut other, _) = start(4, "echo $$; exec sleep 1000");
        let pids: Vec<i32> =
            processes_with_marks(&run, 3).iter().map(|process| process.pid).collect();
        assert!(pids.contains(&without) && pids.len() >= 2, "{pids:?} without {without}");
        let env = [(RUN_ID, run.as_str()), (ITERATION, "3")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let report = end_tree(None, &marks(&env.into()), &nobody());
        assert_eq!((report.survived, there(without)), (Vec::new(), false));
        assert!(report.ended.contains(&"sh".to_owned()), "{:?}", report.ended);
        assert_eq!(processes_with_marks(&run, 3), []);
        assert!(other.try_wait().unwrap().is_none(), "it belongs to another iteration");
        mine.wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn without_marks_only_the_session_is_a_tree() {
        assert_eq!(marks(&BTreeMap::new()), Vec::<String>::new());
        assert_eq!(end_tree(Some(i32::MAX), &[], &nobody()), OrphanCleanup::default());
    }
}
