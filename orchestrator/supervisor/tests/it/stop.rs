//! Ending a tree on demand.

use std::time::{Duration, Instant};

use ralph_orchestrator_supervisor::{Ending, Stop};

use crate::common::{
    MS, NEVER, Watched, assert_gone, bounded, eventually, lines, parent, pids, sh, start,
    stat_field, with_grace,
};

/// Says its signals and goes on.
const STUBBORN: &str = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; \
     while :; do sleep 1000 & wait; done";

#[tokio::test]
async fn a_handled_interrupt_ends_it() {
    let mut process = start(sh("trap 'exit 3' INT; echo ready; sleep 1000 & wait")).await;
    lines(&mut process, 1).await;
    process.stop(Stop::Gracefully);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(3));
    assert!(exit.stopped && !exit.killed);
}

#[tokio::test]
async fn an_ignored_interrupt_is_followed_by_term() {
    let script = "trap '' INT; trap 'echo term; exit 4' TERM; echo ready; sleep 1000 & wait";
    let mut process = start(with_grace(sh(script), 100 * MS, NEVER)).await;
    lines(&mut process, 1).await;
    let begin = Instant::now();
    process.stop(Stop::Gracefully);
    assert_eq!(lines(&mut process, 1).await, ["term"]);
    assert!(begin.elapsed() >= 100 * MS, "the grace was cut short");
    assert_eq!(bounded("the exit", process.wait()).await.ending, Ending::Exited(4));
}

#[tokio::test]
async fn an_ignored_term_is_followed_by_kill() {
    let script = "trap '' INT TERM; echo ready; while :; do sleep 1000; done";
    let mut process = start(with_grace(sh(script), 50 * MS, 50 * MS)).await;
    lines(&mut process, 1).await;
    let begin = Instant::now();
    process.stop(Stop::Gracefully);
    let exit = bounded("the exit", process.wait()).await;
    assert!(begin.elapsed() >= 100 * MS, "the graces were cut short");
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert!(exit.stopped && exit.killed && exit.hint().is_none());
}

#[tokio::test]
async fn a_stronger_stop_escalates_at_once_and_the_same_again_does_nothing() {
    let mut process = start(sh(STUBBORN)).await;
    lines(&mut process, 1).await;
    process.stop(Stop::Gracefully);
    assert_eq!(lines(&mut process, 1).await, ["int"]);
    process.stop(Stop::Gracefully);
    process.stop(Stop::Terminate);
    assert_eq!(lines(&mut process, 1).await, ["term"], "and no second interrupt before");
    process.stop(Stop::Gracefully);
    process.stop(Stop::Terminate);
    process.stop(Stop::Kill);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
}

#[tokio::test]
async fn no_grace_is_kill_at_once() {
    let mut process = start(with_grace(sh(STUBBORN), Duration::ZERO, Duration::ZERO)).await;
    lines(&mut process, 1).await;
    process.stop(Stop::Gracefully);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
}

#[tokio::test]
async fn a_stopped_process_is_ended_by_term() {
    let mut process = start(sh("echo $$; kill -STOP $$; sleep 1000")).await;
    let leader = pids(&mut process, 1).await;
    eventually("the process to stop", || stat_field(leader[0].pid, 0) == "T").await;
    process.stop(Stop::Terminate);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 15, core: false });
}

#[tokio::test]
async fn a_deaf_grandchild_of_another_session_is_ended_within_the_graces() {
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' & \
         sleep 1000 & wait; sleep 1000";
    let mut process = start(with_grace(sh(script), NEVER, 200 * MS)).await;
    let grandchild = pids(&mut process, 1).await;
    let begin = Instant::now();
    process.stop(Stop::Terminate);
    let exit = bounded("the exit", process.wait()).await;
    assert!(begin.elapsed() >= 200 * MS, "the grace was cut short");
    assert_gone(&grandchild, Duration::ZERO);
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
}

#[tokio::test]
async fn dropping_ends_the_tree() {
    let script = "trap '' TERM; setsid sh -c 'echo $$; exec sleep 1000' & echo $$; sleep 1000 & wait; sleep 1000";
    let mut process = start(with_grace(sh(script), NEVER, 100 * MS)).await;
    let mut all = pids(&mut process, 2).await;
    let leader = i32::try_from(process.id().unwrap()).unwrap();
    all.push(Watched::new(parent(leader)));
    drop(process);
    assert_gone(&all, 100 * MS + 5000 * MS);
}

#[tokio::test]
async fn dropping_a_start_ends_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = sh("exec sleep 1000");
    spec.cwd = folder.path().to_owned();
    for _ in 0..20 {
        let supervisor = crate::common::supervisor();
        let spawn = supervisor.spawn(spec.clone());
        let _ = tokio::time::timeout(MS, spawn).await.map(drop);
    }
    eventually("nobody to be left in the folder", || !folder_is_used(folder.path())).await;
}

/// Whether any process works in this folder.
fn folder_is_used(folder: &std::path::Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|p| std::fs::read_link(p.ok()?.path().join("cwd")).ok())
        .any(|cwd| cwd == folder)
}
