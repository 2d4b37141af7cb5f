//! Daemons whose first thread has ended: the kernel calls them zombies, and other threads of theirs run on.

use std::time::Duration;

use ralph_orchestrator_supervisor::{Ending, Spec};
use rustix::process::Signal;

use crate::common::{LIMIT, assert_gone, bounded, one_at_a_time, pids, sh, shim_of, signal, start};

/// Leaves such a daemon in a session of its own, prints its pid, and does what follows.
fn leaving(then: &str) -> Spec {
    let end = if cfg!(target_arch = "x86_64") { 60 } else { 93 };
    sh(&format!(
        "command -v python3 >/dev/null || {{ echo Python 3 is missing: apt-get install python3 >&2; exit; }}
        setsid python3 -c '
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall({end}, 0)
' >/dev/null 2>&1 & p=$!
        until read -r pid name state rest < /proc/$p/stat && [ $state = Z ]; do :; done
        echo $p; {then}"
    ))
}

#[tokio::test]
async fn is_named_and_ended_after_its_leader() {
    let mut process = start(leaving("")).await;
    let daemon = pids(&mut process, 1).await;
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!((exit.ending, exit.survived), (Ending::Exited(0), Vec::new()));
    assert_eq!(exit.left_behind, ["python3"]);
    assert_gone(&daemon, Duration::ZERO);
}

#[tokio::test]
async fn is_ended_by_the_fork_server() {
    let _turn = one_at_a_time().await;
    let mut process = start(leaving("wait")).await;
    let daemon = pids(&mut process, 1).await;
    signal(&shim_of(&process), Signal::KILL);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!((exit.ending, exit.survived), (Ending::Lost, Vec::new()));
    assert_gone(&daemon, Duration::ZERO);
}

#[tokio::test]
async fn is_found_by_its_environment() {
    let run = format!("first-thread-{}", std::process::id());
    let mut spec = leaving("exec sleep 1000");
    spec.env.insert("RALPH_RUN_ID".to_owned(), run.clone());
    spec.env.insert("RALPH_ITERATION".to_owned(), "1".to_owned());
    let mut process = start(spec).await;
    let daemon = pids(&mut process, 1).await;
    let report = ralph_orchestrator_supervisor::end_orphans("RALPH_RUN_ID", &run);
    assert!(report.ended.contains(&"python3".to_owned()), "{report:?}");
    assert_eq!(report.survived, []);
    assert_gone(&daemon, LIMIT);
    bounded("the exit", process.wait()).await;
}

/// Dropped, a process is not waited for, and its supervisor ends with it.
#[tokio::test]
async fn is_ended_when_its_killed_shim_was_the_last() {
    let _turn = one_at_a_time().await;
    let mut process = start(leaving("wait")).await;
    let mut all = pids(&mut process, 1).await;
    all.push(shim_of(&process));
    signal(&all[1], Signal::KILL);
    drop(process);
    assert_gone(&all, LIMIT);
}
