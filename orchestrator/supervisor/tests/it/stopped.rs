//! Shims and fork servers that are stopped, as by SIGSTOP.

use std::time::{Duration, Instant};

use ralph_orchestrator_supervisor::{Ending, KillSwitch, Stop};
use rustix::process::Signal;

use crate::common::{
    LIMIT, Watched, assert_gone, bounded, eventually, lines, one_at_a_time, parent, pids, sh,
    shim_of, signal, start, start_then_go, stat_field, supervisor,
};

/// Stops a process, and returns once it is stopped.
async fn stop(who: &Watched) {
    signal(who, Signal::STOP);
    eventually("it is stopped", || stat_field(who.pid, 0) == "T").await;
}

#[tokio::test]
async fn a_stopped_shim_is_continued_and_ends_its_tree() {
    let _turn = one_at_a_time().await;
    let script = "setsid sleep 1000 & echo $!; sleep 1000 & wait";
    for how in [Stop::Gracefully, Stop::Terminate, Stop::Kill] {
        let mut process = start(sh(script)).await;
        let left = pids(&mut process, 1).await;
        stop(&shim_of(&process)).await;
        process.stop(how);
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!((exit.stopped, exit.killed), (true, how == Stop::Kill), "{exit:?}");
        assert_gone(&left, Duration::ZERO);
    }
}

#[tokio::test]
async fn without_a_stop_it_is_continued_as_well() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let started = supervisor.spawn_with_input(sh("read x; exit 3"));
    let (mut process, input) = bounded("the start", started).await.unwrap();
    stop(&shim_of(&process)).await;
    drop(input);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(3));
}

#[tokio::test]
async fn a_kill_switch_reaches_a_stopped_shim() {
    let _turn = one_at_a_time().await;
    let switch = KillSwitch::default();
    let supervisor = supervisor().with_kill_switch(switch.clone());
    let mut process = supervisor.spawn(sh("trap '' INT TERM; echo $$; sleep 1000")).await.unwrap();
    let leader = pids(&mut process, 1).await;
    stop(&shim_of(&process)).await;
    switch.pull();
    // Nobody reads: it is not the look from time to time that ends it.
    assert_gone(&leader, LIMIT);
    assert!(bounded("the exit", process.wait()).await.killed);
}

#[tokio::test]
async fn who_is_stopped_again_and_again_is_killed_and_its_tree_is_ended() {
    let _turn = one_at_a_time().await;
    let script = "read go; shim=$PPID; trap '' INT TERM; echo $$
        setsid sh -c 'echo $$; while :; do kill -STOP '$shim'; done' & wait; wait; sleep 1000";
    let mut process = start_then_go(sh(script)).await;
    let mut all = pids(&mut process, 2).await;
    all.push(shim_of(&process));
    process.stop(Stop::Terminate);
    let exit = bounded("the exit", process.wait()).await;
    assert!(exit.survived.is_empty(), "{exit:?}");
    assert_gone(&all, Duration::ZERO);
}

#[tokio::test]
async fn dropping_a_process_ends_its_stopped_shim() {
    let _turn = one_at_a_time().await;
    let mut process = start(sh("setsid sleep 1000 & echo $!; wait")).await;
    let mut all = pids(&mut process, 1).await;
    all.push(shim_of(&process));
    stop(&all[1]).await;
    drop(process);
    assert_gone(&all, LIMIT);
}

#[tokio::test]
async fn a_stopped_fork_server_and_idle_shims_are_continued_when_a_tree_ends() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let mut idle = supervisor.spawn(sh("exec sleep 1000")).await.unwrap();
    let first = shim_of(&idle);
    let mut process = supervisor.spawn(sh("exec sleep 1000")).await.unwrap();
    let second = shim_of(&process);
    idle.stop(Stop::Kill);
    bounded("the exit", idle.wait()).await;
    let fork_server = Watched::new(parent(first.pid));
    stop(&first).await;
    stop(&fork_server).await;
    process.stop(Stop::Kill);
    bounded("the exit", process.wait()).await;
    drop((idle, process, supervisor));
    assert!(fork_server.ended_by(Instant::now() + LIMIT));
    assert_gone(&[first, second], LIMIT);
}

#[tokio::test]
async fn a_stopped_idle_shim_is_continued_for_its_next_job() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let mut first = supervisor.spawn(sh("exec sleep 1000")).await.unwrap();
    let shim = shim_of(&first);
    first.stop(Stop::Kill);
    bounded("the exit", first.wait()).await;
    stop(&shim).await;
    let began = Instant::now();
    let started = bounded("the start", supervisor.spawn_with_input(sh("read x; exit 3"))).await;
    let (mut second, input) = started.unwrap();
    assert!(began.elapsed() < LIMIT / 3, "it is not only the limit of a start that ends the wait");
    assert_eq!(shim_of(&second).pid, shim.pid);
    drop(input);
    assert_eq!(bounded("the exit", second.wait()).await.ending, Ending::Exited(3));
}

/// Every new shim is stopped, most of them before they have reported a start.
#[tokio::test]
async fn new_shims_that_are_stopped_are_continued_until_they_have_reported_a_start() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let script = "shim=$PPID; server=$(cut -d' ' -f4 /proc/$shim/stat); echo $$
        while :; do for one in $(cat /proc/$server/task/$server/children); do
            [ $one = $shim ] || kill -STOP $one
        done; done";
    let mut hostile = supervisor.spawn(sh(script)).await.unwrap();
    lines(&mut hostile, 1).await;
    let began = Instant::now();
    for _ in 0..3 {
        let mut process = bounded("the start", supervisor.spawn(sh("exit 3"))).await.unwrap();
        process.stop(Stop::Kill);
        bounded("the exit", process.wait()).await;
    }
    assert!(began.elapsed() < LIMIT, "it is not the limit of a start that ends each wait");
    hostile.stop(Stop::Kill);
    bounded("the exit", hostile.wait()).await;
}
