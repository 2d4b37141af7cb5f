//! Daemons that nothing identifies, whose shim and fork server were killed: this process adopts them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ralph_orchestrator_supervisor::{Ending, Process, Spec, Stop};
use rustix::process::Signal;

use crate::common::{
    Watched, assert_gone, bounded, lines, one_at_a_time, parent, pids, sh, shim_of, signal, start,
    start_then_go, stat_field,
};

/// A daemon as it is made, without an environment, that does `work`; its pid is printed. Then the leader waits.
fn hidden(work: &str) -> Spec {
    sh(&format!(
        "read go; shim=$PPID; fork_server=$(awk '/^PPid:/ {{ print $2 }}' /proc/$shim/status)
         (setsid env -i PATH=\"$PATH\" shim=$shim fork_server=$fork_server sh -c '
             trap \"\" HUP INT TERM; (cd /; {work}) > /dev/null 2>&1 & echo $!' &)
         sleep 1000"
    ))
}

fn keepers(process: &Process) -> [Watched; 2] {
    let shim = shim_of(process);
    [Watched::new(parent(shim.pid)), shim]
}

/// A process of this one that is none of the supervisor's.
#[allow(clippy::disallowed_methods)]
fn bystander() -> Child {
    Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn a_daemon_without_any_mark_is_ended_in_whatever_order_those_above_it_were_killed() {
    let _turn = one_at_a_time().await;
    let mut bystander = bystander();
    let mut other = start(sh("setsid sleep 1000 & echo $!; exec sleep 1000")).await;
    let others = pids(&mut other, 1).await;
    for shim_first in [false, true] {
        let mut process = start_then_go(hidden("while :; do sleep 1000; done")).await;
        let daemon = pids(&mut process, 1).await;
        let mut above = keepers(&process);
        if shim_first {
            above.reverse();
        }
        above.iter().for_each(|who| signal(who, Signal::KILL));
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!((exit.ending, exit.survived), (Ending::Lost, Vec::new()));
        assert_gone(&daemon, Duration::ZERO);
        let entry = format!("/proc/{}", daemon[0].pid);
        assert!(shim_first || !Path::new(&entry).exists(), "it was waited for");
    }
    assert!(bystander.try_wait().unwrap().is_none() && other.id().is_some());
    assert!(!others[0].ended_by(Instant::now()), "another tree is none of its business");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn a_daemon_that_kills_those_above_it_is_ended() {
    let _turn = one_at_a_time().await;
    let mut process = start_then_go(hidden("kill -KILL $fork_server $shim; sleep 1000")).await;
    // Its number may never be read.
    let exit = bounded("the exit", process.wait()).await;
    assert!(exit.ending == Ending::Lost && exit.survived.is_empty(), "{exit:?}");
    assert!(exit.left_behind.iter().any(|name| name == "sh" || name == "sleep"), "{exit:?}");
}

#[tokio::test]
async fn a_daemon_that_stops_those_above_it_again_and_again_is_ended() {
    let _turn = one_at_a_time().await;
    let work = "while :; do kill -STOP $fork_server $shim; done";
    let mut process = start_then_go(hidden(work)).await;
    let daemon = pids(&mut process, 1).await;
    let above = keepers(&process);
    process.stop(Stop::Terminate);
    let exit = bounded("the exit", process.wait()).await;
    assert!(exit.survived.is_empty(), "{exit:?}");
    assert_gone(&daemon, Duration::ZERO);
    assert_gone(&above, Duration::ZERO);
}

#[tokio::test]
async fn shims_of_a_killed_fork_server_are_adopted_and_go_on() {
    let _turn = one_at_a_time().await;
    let mut process = start(sh("echo $$; exec sleep 1000")).await;
    let leader: i32 = lines(&mut process, 1).await[0].parse().unwrap();
    let [fork_server, shim] = keepers(&process);
    signal(&fork_server, Signal::KILL);
    let mut lost = start_then_go(hidden("sleep 1000")).await;
    pids(&mut lost, 1).await;
    keepers(&lost).iter().for_each(|who| signal(who, Signal::KILL));
    assert_eq!(bounded("the exit", lost.wait()).await.ending, Ending::Lost);
    assert_eq!(parent(shim.pid), i32::try_from(std::process::id()).unwrap());
    assert_ne!(stat_field(leader, 0), "Z", "another one's end is not its own");
    process.stop(Stop::Terminate);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 15, core: false });
}
