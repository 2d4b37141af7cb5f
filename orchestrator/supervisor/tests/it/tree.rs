//! What a leader leaves behind, and what happens to a tree without its shim.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_supervisor::{Ending, Stop, Supervisor};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::common::{
    LIMIT, MS, NEVER, Watched, assert_gone, bounded, eventually, lines, one_at_a_time, parent,
    pids, program, sh, shim_of, signal, start, stat_field, supervisor, with_grace,
};

/// Runs a script that sets `p` to the pid of a `sleep` that it leaves, which shall be named and ended.
async fn leaves(script: &str) {
    // A child that has not come to its `exec` yet has its parent's name.
    let named = "until read n < /proc/$p/comm && [ $n = sleep ]; do :; done; echo $p";
    let mut spec = sh(&format!("{script}; {named}"));
    spec.grace.leftovers = NEVER;
    let mut process = start(spec).await;
    let left = pids(&mut process, 1).await;
    // A grace that is waited for to its end would be longer than the bound.
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(0), "{script}");
    assert_eq!(exit.left_behind, ["sleep 1000"], "{script}");
    assert!(!exit.leaked && !exit.stopped && !exit.killed, "{exit:?}");
    assert_gone(&left, Duration::ZERO);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_does_not_hold_the_exit() {
    leaves("sleep 1000 & p=$!").await;
}

#[tokio::test]
async fn a_daemon_in_its_own_session_is_ended() {
    leaves("p=$(setsid -f sh -c 'echo $$; exec >/dev/null sleep 1000')").await;
}

#[tokio::test]
async fn a_double_fork_is_ended() {
    leaves("p=$(sh -c 'sleep 1000 >/dev/null & echo $!' & wait)").await;
}

#[tokio::test]
async fn what_ends_by_itself_is_ended_but_not_named() {
    let temp = tempfile::tempdir().unwrap();
    // A shell by that name runs a file by the name of what git does, which opens what nobody opens.
    std::fs::copy("/bin/sh", temp.path().join("git")).unwrap();
    // A supervising process is what a plugin's host leaves.
    for (what, named) in
        [("maintenance", None), ("__supervise", None), ("push", Some("./git push"))]
    {
        std::fs::write(temp.path().join(what), "echo $$; read line < waits\n").unwrap();
        let script = format!("mkfifo waits 2>/dev/null; ./git {what} & read line < ready");
        let mut spec = sh(&format!("rm -f ready; mkfifo ready; {script}"));
        spec.cwd = temp.path().to_owned();
        let mut process = start(spec).await;
        let left = pids(&mut process, 1).await;
        std::fs::write(temp.path().join("ready"), "\n").unwrap();
        let exit = bounded("the exit", process.wait()).await;
        let left_behind = exit.left_behind.iter().map(String::as_str);
        assert_eq!(exit.ending, Ending::Exited(0), "{what}");
        assert_eq!(left_behind.collect::<Vec<_>>(), Vec::from_iter(named), "{what}");
        assert_gone(&left, Duration::ZERO);
    }
}

#[tokio::test]
async fn a_deaf_daemon_is_killed_after_its_grace() {
    let script = "(setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' &) | head -n 1";
    let mut process = start(with_grace(sh(script), NEVER, 200 * MS)).await;
    let left = pids(&mut process, 1).await;
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(0));
    assert!(exit.left_behind.iter().any(|name| name.starts_with("sh -c ")), "{exit:?}");
    assert_gone(&left, Duration::ZERO);
}

#[tokio::test]
async fn a_tree_that_forks_while_it_is_killed_is_ended() {
    let script = "trap '' TERM; f() { trap '' TERM; while :; do setsid sleep 1000 & sleep 0.001; done; }; \
         f & f & f & echo go; sleep 0.05";
    let mut process = start(with_grace(sh(script), NEVER, 50 * MS)).await;
    lines(&mut process, 1).await;
    let shim = shim_of(&process);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(0));
    assert!(exit.survived.is_empty());
    assert_eq!(children(&shim), "", "nothing is left, zombies neither");
}

fn children(of: &Watched) -> String {
    std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", of.pid)).unwrap()
}

#[tokio::test]
async fn a_shim_does_one_job_after_the_other_and_each_is_like_the_first() {
    let supervisor = supervisor();
    let mut first = None;
    for round in 0..5 {
        let mut spec =
            sh("echo $$; pwd; echo $X; cat; trap '' INT TERM; setsid sleep 1000 & exit $X");
        spec.env.insert("X".to_owned(), round.to_string());
        spec.stdin = format!("in {round}\n").into_bytes();
        spec.grace.leftovers = Duration::ZERO;
        let mut process = supervisor.spawn(spec).await.unwrap();
        let shim = shim_of(&process);
        assert_eq!(*first.get_or_insert(shim.pid), shim.pid, "the same one");
        // What is said to a tree that has gone is not for the next one.
        let text = lines(&mut process, 4).await;
        assert_eq!(text[1..], ["/".to_owned(), round.to_string(), format!("in {round}")]);
        process.stop(Stop::Kill);
        process.stop(Stop::Terminate);
        bounded("the exit", process.wait()).await;
        assert_eq!(bounded("the exit", process.wait()).await.survived, []);
        process.stop(Stop::Kill);
        assert_eq!(children(&shim), "");
        let error = supervisor.spawn(spec_of("/no/such/program")).await.unwrap_err();
        assert!(error.to_string().contains("/no/such/program"));
    }
}

fn spec_of(program: &str) -> ralph_orchestrator_supervisor::Spec {
    ralph_orchestrator_supervisor::Spec { program: program.into(), ..sh("") }
}

#[tokio::test]
async fn a_waiting_shim_that_was_killed_is_not_asked_and_one_waits_for_each_guard() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let run = |supervisor: Supervisor| async move {
        // It is still there when its parent is looked for.
        let (mut process, input) = supervisor.spawn_with_input(sh("cat")).await.unwrap();
        let shim = shim_of(&process);
        drop(input);
        bounded("the exit", process.wait()).await;
        shim
    };
    let shim = run(supervisor.clone()).await;
    let fork_server = Watched::new(parent(shim.pid));
    signal(&shim, Signal::KILL);
    assert_gone(&[shim], LIMIT);
    let second = run(supervisor.clone()).await;
    assert_eq!(parent(second.pid), fork_server.pid);
    let guard = Arc::new(tempfile::tempfile().unwrap());
    let guarded = run(supervisor.clone().with_guard(Arc::clone(&guard))).await;
    assert_ne!(guarded.pid, second.pid);
    let other = run(supervisor.clone().with_guard(Arc::new(tempfile::tempfile().unwrap()))).await;
    assert!(![guarded.pid, second.pid].contains(&other.pid));
    assert_eq!(run(supervisor.clone().with_guard(guard)).await.pid, guarded.pid);
    assert_eq!(run(supervisor).await.pid, second.pid);
    // Without anybody to ask for more, all of them end.
    assert_gone(&[guarded, second, other, fork_server], LIMIT);
}

#[tokio::test]
async fn a_prepared_shim_is_the_first_that_is_used() {
    for is_used in [true, false] {
        let supervisor = supervisor();
        supervisor.prepare();
        let guard = Arc::new(tempfile::tempfile().unwrap());
        supervisor.set_guard(Arc::clone(&guard));
        supervisor.prepare();
        let mut left = Vec::new();
        if is_used {
            let (mut process, input) = supervisor.spawn_with_input(sh("cat")).await.unwrap();
            let shim = shim_of(&process);
            let fork_server = Watched::new(parent(shim.pid));
            let children = format!("/proc/{0}/task/{0}/children", fork_server.pid);
            let shims = std::fs::read_to_string(children).unwrap();
            assert_eq!(shims.trim(), shim.pid.to_string(), "one was forked, ahead of time");
            drop(input);
            bounded("the exit", process.wait()).await;
            left.extend([shim, fork_server]);
        }
        drop(supervisor);
        // Whoever was not used holds it, too.
        let reopened = File::open(format!("/proc/self/fd/{}", guard.as_raw_fd())).unwrap();
        flock(&guard, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop(guard);
        assert_gone(&left, LIMIT);
        let is_free = || flock(&reopened, FlockOperation::NonBlockingLockExclusive).is_ok();
        eventually("all shims have ended", is_free).await;
    }
}

#[tokio::test]
async fn supervisors_with_shims_of_their_own_share_a_fork_server_and_no_shim() {
    let run = |supervisor: Supervisor| async move {
        let (mut process, input) = supervisor.spawn_with_input(sh("cat")).await.unwrap();
        let shim = shim_of(&process);
        drop(input);
        bounded("the exit", process.wait()).await;
        shim
    };
    let first = supervisor();
    let other = first.with_own_shims();
    let (shim, of_other) = (run(first.clone()).await, run(other.clone()).await);
    assert_eq!(parent(shim.pid), parent(of_other.pid));
    assert_ne!(shim.pid, of_other.pid);
    // Each is used again by who has it, and by its clones.
    assert_eq!(run(first.clone()).await.pid, shim.pid);
    assert_eq!(run(other.clone()).await.pid, of_other.pid);
    let fork_server = Watched::new(parent(shim.pid));
    // The idle ones end with the last one who could use them, and the fork server with the last of all.
    let clone = other.clone();
    drop(other);
    assert_eq!(run(clone).await.pid, of_other.pid);
    assert_gone(&[of_other], LIMIT);
    assert_eq!(run(first.clone()).await.pid, shim.pid);
    drop(first);
    assert_gone(&[shim, fork_server], LIMIT);
}

#[tokio::test]
async fn orphans_that_end_while_the_leader_runs_are_reaped() {
    let script = "(sh -c 'true & echo $!' &) | head -n 1; echo $$; sleep 1000 & wait";
    let mut process = start(sh(script)).await;
    let all = pids(&mut process, 2).await;
    let path = format!("/proc/{}", all[0].pid);
    eventually("the orphan to be reaped", || !std::path::Path::new(&path).exists()).await;
    process.stop(Stop::Kill);
    bounded("the exit", process.wait()).await;
}

#[tokio::test]
async fn an_outsider_with_the_output_does_not_hold_the_exit() {
    let mut process = start(sh("echo $$; sleep 1000")).await;
    let leader = pids(&mut process, 1).await;
    let pipe = format!("/proc/{}/fd/1", leader[0].pid);
    let outsider = File::options().write(true).open(pipe).unwrap();
    process.stop(Stop::Kill);
    while bounded("the end of output", process.next()).await.is_some() {}
    let exit = bounded("the exit", process.wait()).await;
    assert!(exit.leaked);
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    drop(outsider);
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_when_the_tree_is_gone() {
    let mut process = start(sh("head -c 30000 /dev/zero; head -c 30000 /dev/zero >&2")).await;
    let leader = Watched::new(i32::try_from(process.id().unwrap()).unwrap());
    let first = bounded("the first chunk", process.next()).await.unwrap().bytes.len();
    assert_gone(&[leader], LIMIT);
    let mut rest = 0;
    while let Some(chunk) = bounded("a chunk", process.next()).await {
        rest += chunk.bytes.len();
        tokio::time::sleep(250 * MS).await;
    }
    assert_eq!(first + rest, 60_000);
    assert!(!bounded("the exit", process.wait()).await.leaked);
}

#[tokio::test]
async fn without_its_shim_the_whole_tree_dies() {
    let _turn = one_at_a_time().await;
    let script = "trap '' TERM; sleep 1000 & echo $!; echo $$; \
         setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' & \
         (setsid sh -c 'sleep 1000 & echo $!; exec sleep 1000' &) ; wait; sleep 1000";
    let other = start(sh("echo $$; sleep 1000")).await;
    let mut process = start(sh(script)).await;
    let all = pids(&mut process, 4).await;
    signal(&shim_of(&process), Signal::KILL);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Lost);
    assert!(exit.survived.is_empty() && !exit.stopped);
    assert_gone(&all, Duration::ZERO);
    assert!(other.id().is_some(), "another tree is none of its business");
    assert!(!shim_of(&other).ended_by(Instant::now()));
}

#[tokio::test]
async fn without_the_fork_server_trees_live_on_and_new_ones_get_another() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let start = || async { supervisor.spawn(sh("sleep 1000")).await.unwrap() };
    let first = start().await;
    let fork_server = Watched::new(parent(shim_of(&first).pid));
    signal(&fork_server, Signal::KILL);
    assert_gone(&[fork_server], Duration::from_secs(30));
    let second = start().await;
    for mut process in [first, second] {
        assert!(!shim_of(&process).ended_by(Instant::now()));
        process.stop(Stop::Terminate);
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!(exit.ending, Ending::Signaled { signal: 15, core: false });
    }
}

#[tokio::test]
async fn a_stopped_fork_server_is_continued() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let first = supervisor.spawn(sh("sleep 1000")).await.unwrap();
    let fork_server = Watched::new(parent(shim_of(&first).pid));
    signal(&fork_server, Signal::STOP);
    let second = bounded("the start", supervisor.spawn(sh("sleep 1000"))).await.unwrap();
    for mut process in [first, second] {
        process.stop(Stop::Kill);
        bounded("the exit", process.wait()).await;
    }
}

#[tokio::test]
async fn a_shim_that_is_asked_to_end_ends_its_tree_first() {
    let _turn = one_at_a_time().await;
    for number in [Signal::TERM, Signal::INT] {
        let mut process = start(sh("setsid sleep 1000 & echo $!; sleep 1000 & wait")).await;
        let left = pids(&mut process, 1).await;
        signal(&shim_of(&process), number);
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!(exit.ending, Ending::Signaled { signal: 15, core: false });
        assert!(!exit.stopped, "the orchestrator had not asked");
        assert_gone(&left, Duration::ZERO);
    }
}

#[tokio::test]
async fn the_guard_is_locked_until_the_tree_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guard");
    let guard = File::create(&path).unwrap();
    flock(&guard, FlockOperation::LockExclusive).unwrap();
    let supervisor = supervisor().with_guard(Arc::new(guard));
    let script = "trap '' TERM; echo $$; sleep 1000; sleep 1000; sleep 1000";
    let spec = with_grace(sh(script), NEVER, 300 * MS);
    let mut process = bounded("the start", supervisor.spawn(spec)).await.unwrap();
    let leader = pids(&mut process, 1).await;
    // As if the orchestrator had ended: nothing of it holds the file now.
    drop((process, supervisor));
    let again = File::open(&path).unwrap();
    flock(&again, FlockOperation::NonBlockingLockExclusive).expect_err("the tree is still dying");
    let wait = tokio::task::spawn_blocking(move || flock(&again, FlockOperation::LockExclusive));
    bounded("the guard", wait).await.unwrap().unwrap();
    assert_gone(&leader, Duration::ZERO);
}

/// Without the right to end processes of other users.
fn powerless() -> Supervisor {
    let shim = env!("CARGO_BIN_EXE_ralph-supervisor-shim");
    let args = ["--bounding-set=-kill", "--inh-caps=-kill", "--", shim];
    Supervisor::new(program("setpriv"), args.map(Into::into).into())
}

#[tokio::test]
async fn who_cannot_be_ended_is_named_with_its_pid_and_its_start() {
    let _turn = one_at_a_time().await;
    // Only root can make a process of another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut spec = sh("setpriv --reuid=65534 --clear-groups sleep 1000 > /dev/null 2>&1 & p=$!
        until read n < /proc/$p/comm && [ $n = sleep ]; do :; done; echo $p");
    spec.grace.leftovers = MS;
    let mut process = powerless().spawn(spec).await.unwrap();
    let left = pids(&mut process, 1).await;
    let patience = Duration::from_secs(120);
    let exit = tokio::time::timeout(patience, process.wait()).await.unwrap();
    let named: Vec<_> = exit.survived.iter().map(ToString::to_string).collect();
    let started: u64 = stat_field(left[0].pid, 19).parse().unwrap();
    signal(&left[0], Signal::KILL);
    assert_eq!(named, [format!("sleep (pid {})", left[0].pid)]);
    assert_eq!(exit.survived[0].started, started);
    assert_eq!((exit.ending, exit.left_behind), (Ending::Exited(0), vec!["sleep 1000".to_owned()]));
    assert_gone(&left, LIMIT);
}

#[tokio::test]
async fn a_daemon_whose_shim_and_fork_server_were_killed_is_found_by_its_environment() {
    let _turn = one_at_a_time().await;
    let supervisor = supervisor();
    let run = format!("unwatched-{}", std::process::id());
    let mut spec = sh("setsid sh -c 'trap \"\" HUP TERM; echo $$; exec >/dev/null 2>&1
        while :; do sleep 1000; done' & wait");
    spec.env.insert("RALPH_RUN_ID".to_owned(), run.clone());
    spec.env.insert("RALPH_ITERATION".to_owned(), "1".to_owned());
    let mut process = bounded("the start", supervisor.spawn(spec)).await.unwrap();
    let daemon = pids(&mut process, 1).await;
    let shim = shim_of(&process);
    for who in [Watched::new(parent(shim.pid)), shim] {
        signal(&who, Signal::KILL);
    }
    let exit = bounded("the exit", process.wait()).await;
    assert_gone(&daemon, Duration::ZERO);
    assert_eq!((exit.ending, exit.survived), (Ending::Lost, Vec::new()));
    assert!(exit.left_behind.contains(&"sh".to_owned()), "{:?}", exit.left_behind);
}
