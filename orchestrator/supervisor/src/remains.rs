//! What a tree has left when its shim and its orchestrator were killed in the same moment.
//!
//! The kernel ends the leader then, and nobody is left who knows who descends from it. Such processes are
//! known by a variable of the environment that they were started with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::process::{Signal, geteuid, getpid};

use crate::procfs::{self, Stat};
use crate::shim::signal;
use crate::survivor::Survivor;

/// Variables of the environment that tell the processes of an iteration from all others.
const RUN_ID: &str = "RALPH_RUN_ID";
const ITERATION: &str = "RALPH_ITERATION";

/// How long it is tried. A killed process is gone in milliseconds, unless it waits for a disk that is
/// not there any more, or others are started all the time.
const LONGEST: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// So many looks in a row have to find nobody, once somebody was found.
const QUIET: u32 = 2;
/// So many looks in a row that find nobody are enough, even if others are started all the time: who is
/// forked while others are looked at may be missed by one of them.
const CALM: u32 = 40;

/// Processes that were found, by the kernel's names for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Those that were ended.
    pub ended: Vec<String>,
    /// Those that were still there after 10 s.
    pub survived: Vec<Survivor>,
}

/// Processes by pid and start.
type Found = BTreeMap<(i32, u64), Stat>;

/// What a look at one process tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Wanted,
    Another,
    /// It is about to become another program, and shows no environment just now.
    Becoming,
}

/// Kills each process of this user that was started with `name=value` in its environment, until none is
/// left. Never the caller, nor who is above it. Blocks: for a look at all processes if there is none to
/// kill, and for 10 s at most.
///
/// Who was started with another environment, as by `env -i`, is not found.
#[must_use]
pub fn end_remains(name: &str, value: &str) -> Remains {
    let (wanted, spared) = ([format!("{name}={value}")], this_and_above());
    end_all(|| look(&wanted, &spared))
}

/// The same for what is left of a tree that nobody watches over any more: who is in the leader's session,
/// who was started with all of `marks` in its environment, and who descends from one of those.
pub(crate) fn end_tree(leader: i32, marks: &[String]) -> Remains {
    let spared = this_and_above();
    end_all(|| {
        let (mut found, settled) = if marks.is_empty() {
            (Found::new(), true)
        } else {
            let (mut found, settled) = look(marks, &spared);
            add_descendants(&mut found, &spared);
            (found, settled)
        };
        found.extend(session(leader).into_iter().map(|one| ((one.pid, one.started), one)));
        (found, settled)
    })
}

/// The variables of this environment that mark the processes of an iteration, as `NAME=value`.
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

/// The processes of this iteration: those that were started with its marks in their environment and
/// those that descend from one, but for the caller and who is above it.
pub(crate) fn of_marks(run: &str, iteration: u64) -> Vec<Stat> {
    let spared = this_and_above();
    let marks = iteration_marks(run, Some(&iteration.to_string()));
    let (mut found, _) = look(&marks, &spared);
    add_descendants(&mut found, &spared);
    found.into_values().collect()
}

/// Kills who is in the leader's session.
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

/// Kills whom `look` finds until it finds nobody; it also says whether it could tell of everybody.
fn end_all(mut look: impl FnMut() -> (Found, bool)) -> Remains {
    let until = Instant::now() + LONGEST;
    let (mut all, mut quiet) = (Found::new(), 0);
    loop {
        let (found, settled) = look();
        quiet = if found.is_empty() { quiet + 1 } else { 0 };
        all.extend(found.clone());
        let enough = if all.is_empty() { 1 } else { QUIET };
        let ended = (settled && quiet >= enough) || quiet >= CALM;
        if ended || Instant::now() >= until {
            all.retain(|process, _| !found.contains_key(process));
            return Remains {
                ended: all.into_values().map(|process| process.name).collect(),
                survived: found.into_values().map(Survivor::from).collect(),
            };
        }
        for process in found.values() {
            signal(process, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Those that are wanted, and whether it was plain of each process and none was started meanwhile.
fn look(wanted: &[String], spared: &BTreeSet<i32>) -> (Found, bool) {
    let newest = newest();
    let (mut found, mut settled) = (Found::new(), true);
    for process in procfs::all().into_iter().filter(|process| !spared.contains(&process.pid)) {
        match of(process.pid, wanted) {
            Is::Wanted => drop(found.insert((process.pid, process.started), process)),
            Is::Becoming => settled = false,
            Is::Another => {}
        }
    }
    (found, settled && newest == self::newest())
}

/// The pid that was given last.
fn newest() -> Option<String> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back().map(str::to_owned)
}

/// Whether it is this user's and was started with all of that. Not so of a zombie.
fn of(pid: i32, wanted: &[String]) -> Is {
    let path = format!("/proc/{pid}");
    // The superuser could read everybody's.
    let own = fs::metadata(&path).is_ok_and(|process| process.uid() == geteuid().as_raw());
    let environ = fs::read(format!("{path}/environ")).unwrap_or_default();
    if !own {
        Is::Another
    } else if environ.is_empty() {
        let stat = fs::read(format!("{path}/stat")).unwrap_or_default();
        if is_becoming(&stat) { Is::Becoming } else { Is::Another }
    } else if wanted.iter().all(|wanted| has(&environ, wanted)) {
        Is::Wanted
    } else {
        Is::Another
    }
}

fn has(environ: &[u8], wanted: &str) -> bool {
    environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Whether a process with memory has not yet got the place of its environment. In a time that is short,
/// unless there are many processes for few processors.
fn is_becoming(stat: &[u8]) -> bool {
    let Some(close) = memchr::memrchr(b')', stat) else { return false };
    let rest = String::from_utf8_lossy(stat.get(close..).unwrap_or_default());
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Fields 23 (size of the memory) and 51 (end of the environment) of proc(5); the first here is 2.
    fields.get(21).is_some_and(|size| *size != "0") && fields.get(49) == Some(&"0")
}

fn this_and_above() -> BTreeSet<i32> {
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

    const NAME: &str = "RALPH_REMAINS_TEST";

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
        let remains = end_remains(NAME, &value);
        assert_eq!(remains.survived, []);
        assert!(
            remains.ended.len() >= 3 && remains.ended.contains(&"sh".to_owned()),
            "{remains:?}"
        );
        assert!(pids.iter().all(|pid| !there(*pid)));
        assert_eq!(look(&[format!("{NAME}={value}")], &BTreeSet::new()).0, Found::new());
        assert!(other.try_wait().unwrap().is_none(), "a longer value is another one");
        assert_eq!(end_remains(NAME, &value), Remains::default(), "a zombie is none");
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
        let remains = end_remains(NAME, &value);
        fs::remove_file(&path).unwrap();
        first.wait().unwrap();
        assert_eq!(remains.survived, []);
        assert_eq!(look(&[format!("{NAME}={value}")], &BTreeSet::new()).0, Found::new());
    }

    #[test]
    fn who_is_becoming_another_program_is_told_from_who_has_no_environment() {
        let stat = |size: u64, end: u64| {
            let middle = ["0"; 27].join(" ");
            format!("7 (a) 1 2 S) R {} {size} {middle} {end} 0", ["1"; 19].join(" "))
        };
        assert!(is_becoming(stat(4096, 0).as_bytes()));
        assert!(!is_becoming(stat(4096, 1).as_bytes()), "an empty environment has a place");
        assert!(!is_becoming(stat(0, 0).as_bytes()), "a zombie and a kernel thread have no memory");
        assert!(!is_becoming(b"") && !is_becoming(b"7 (a) R 1"));
        // The places in the line are right for the kernel that runs.
        let own = fs::read("/proc/self/stat").unwrap();
        assert!(!is_becoming(&own));
        let mut bare = Command::new("/bin/sleep").arg("1000").env_clear().spawn().unwrap();
        let pid = i32::try_from(bare.id()).unwrap();
        while of(pid, &["x=y".to_owned()]) == Is::Becoming {}
        assert_eq!(of(pid, &["x=y".to_owned()]), Is::Another);
        bare.kill().unwrap();
        bare.wait().unwrap();
    }

    #[test]
    fn spares_the_caller_and_who_is_above_it() {
        let spared = this_and_above();
        assert!(spared.contains(&getpid().as_raw_pid()) && spared.contains(&1), "{spared:?}");
        // Without that it would find this very process by what it was started with.
        let (name, value) = std::env::vars().find(|(_, value)| !value.is_empty()).unwrap();
        let own = getpid().as_raw_pid();
        assert!(
            look(&[format!("{name}={value}")], &BTreeSet::new())
                .0
                .keys()
                .any(|(pid, _)| *pid == own)
        );
        assert!(look(&[format!("{name}={value}")], &spared).0.keys().all(|(pid, _)| *pid != own));
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
        let pids: Vec<i32> = of_marks(&run, 3).iter().map(|process| process.pid).collect();
        assert!(pids.contains(&without) && pids.len() >= 2, "{pids:?} without {without}");
        let env = [(RUN_ID, run.as_str()), (ITERATION, "3")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let remains = end_tree(i32::MAX, &marks(&env.into()));
        assert_eq!((remains.survived, there(without)), (Vec::new(), false));
        assert!(remains.ended.contains(&"sh".to_owned()), "{:?}", remains.ended);
        assert_eq!(of_marks(&run, 3), []);
        assert!(other.try_wait().unwrap().is_none(), "it belongs to another iteration");
        mine.wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn without_marks_only_the_session_is_a_tree() {
        assert_eq!(marks(&BTreeMap::new()), Vec::<String>::new());
        assert_eq!(end_tree(i32::MAX, &[]), Remains::default());
    }
}
