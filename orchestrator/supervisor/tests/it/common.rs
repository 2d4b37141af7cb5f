//! What the tests share: short ways to start shells, and waits that end.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ralph_orchestrator_supervisor::{Grace, Process, Spec, Stream, Supervisor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use tokio::sync::{Mutex, MutexGuard};

pub(crate) const MS: Duration = Duration::from_millis(1);
/// No wait of a test is longer; this machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// A grace that no test waits for.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::new(env!("CARGO_BIN_EXE_ralph-supervisor-shim").into(), Vec::new())
}

pub(crate) fn sh(script: &str) -> Spec {
    Spec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        stdin: Vec::new(),
        // A child that is between its fork and its exec may lose a SIGTERM to its shell's trap.
        grace: Grace { interrupt: NEVER, terminate: NEVER, ..Grace::default() },
    }
}

pub(crate) fn with_grace(mut spec: Spec, interrupt: Duration, terminate: Duration) -> Spec {
    spec.grace.interrupt = interrupt;
    spec.grace.terminate = terminate;
    spec.grace.leftovers = terminate;
    spec
}

pub(crate) async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {LIMIT:?}: {what}"),
    }
}

pub(crate) async fn start(spec: Spec) -> Process {
    bounded("the start of a process", supervisor().spawn(spec)).await.unwrap()
}

/// Starts a script that waits until its start was reported: `read go` at its beginning.
pub(crate) async fn start_then_go(spec: Spec) -> Process {
    let supervisor = supervisor();
    let started = bounded("the start of a process", supervisor.spawn_with_input(spec)).await;
    // The end of its input is the word.
    started.unwrap().0
}

/// Reads lines of stdout until there are `count`.
pub(crate) async fn lines(process: &mut Process, count: usize) -> Vec<String> {
    let mut text = Vec::new();
    while text.iter().filter(|b| **b == b'\n').count() < count {
        let chunk = bounded("a line of output", process.next()).await.expect("output ended early");
        assert_eq!(chunk.stream, Stream::Stdout, "{}", String::from_utf8_lossy(&chunk.bytes));
        text.extend(chunk.bytes);
    }
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

pub(crate) async fn pids(process: &mut Process, count: usize) -> Vec<Watched> {
    lines(process, count).await.iter().map(|l| Watched::new(l.parse().unwrap())).collect()
}

/// How often those that were adopted are waited for.
const REAP: Duration = Duration::from_millis(50);

/// A process that need not be our child, told by a handle and not by its number.
pub(crate) struct Watched {
    pub(crate) pid: i32,
    handle: Option<std::os::fd::OwnedFd>,
}

impl Watched {
    pub(crate) fn new(pid: i32) -> Self {
        let handle = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).ok();
        Self { pid, handle }
    }

    /// Whether it ended, waiting for that until a deadline.
    pub(crate) fn ended_by(&self, deadline: Instant) -> bool {
        let Some(handle) = &self.handle else { return true };
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap();
        poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }
}

pub(crate) fn assert_gone(who: &[Watched], within: Duration) {
    let deadline = Instant::now() + within;
    for watched in who {
        // The supervisor of another test has made this process one that adopts, so nobody else waits for what was
        // adopted, and the init of a root stays until somebody has.
        while !watched.ended_by(deadline.min(Instant::now() + REAP)) {
            for pid in who.iter().filter_map(|watched| Pid::from_raw(watched.pid)) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            let status = fs::read_to_string(format!("/proc/{}/status", watched.pid));
            assert!(Instant::now() < deadline, "still there after {within:?}: {status:?}");
        }
    }
}

/// A field of `/proc/PID/stat` after the name, counted from 0: state, parent, group, session, …
pub(crate) fn stat_field(pid: i32, field: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(field).unwrap().to_owned()
}

pub(crate) fn parent(pid: i32) -> i32 {
    stat_field(pid, 1).parse().unwrap()
}

/// The shim above the leader of a process, which has to run.
pub(crate) fn shim_of(process: &Process) -> Watched {
    Watched::new(parent(i32::try_from(process.id().unwrap()).unwrap()))
}

pub(crate) fn signal(who: &Watched, signal: Signal) {
    kill_process(Pid::from_raw(who.pid).unwrap(), signal).unwrap();
}

/// Lets tests that kill or stop supervising processes, or have none, run one after the other: a tree that has lost its own
/// ends what this process has adopted since, and cannot tell its daemons from those of another one that has.
pub(crate) async fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOST: Mutex<()> = Mutex::const_new(());
    LOST.lock().await
}

/// Asks again and again until it is so, for what the kernel gives no event.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let ask = async {
        while !holds() {
            tokio::time::sleep(5 * MS).await;
        }
    };
    bounded(what, ask).await;
}

pub(crate) fn program(name: &str) -> PathBuf {
    ralph_orchestrator_supervisor::find_program(name, "/usr/bin:/bin", "/".as_ref()).unwrap()
}
