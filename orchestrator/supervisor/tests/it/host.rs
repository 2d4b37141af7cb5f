//! An orchestrator that is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::{
    LIMIT, MS, NEVER, Watched, assert_gone, lines, parent, sh, shim_of, signal, start, stat_field,
    with_grace,
};

const DOOMED: &str = "SUPERVISE_TEST_DOOMED_HOST";
/// Not a test but what the next one kills: it starts a tree that ignores SIGTERM, says who is in it,
/// and waits. The variable holds the grace, in milliseconds.
#[tokio::test]
async fn doomed() {
    let Ok(grace) = std::env::var(DOOMED) else { return };
    let grace = Duration::from_millis(grace.parse().unwrap());
    let script = "trap '' TERM; echo $$; \
         setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' & \
         (sh -c 'exec sleep 1000 >/dev/null 2>&1' & echo $!) & \
         sleep 1000; sleep 1000";
    let mut process = start(with_grace(sh(script), NEVER, grace)).await;
    let mut pids = lines(&mut process, 3).await;
    pids.push(shim_of(&process).pid.to_string());
    // Not by `println!`, which tests may capture.
    let line = format!("\ntree {}\n", pids.join(" "));
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    tokio::time::sleep(NEVER).await;
}

#[allow(clippy::disallowed_methods)]
fn doomed_host(grace: Duration) -> (Child, Vec<Watched>) {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "host::doomed", "--nocapture"])
        .env(DOOMED, grace.as_millis().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(host.stdout.take().unwrap());
    let line = output.lines().map(Result::unwrap).find(|l| l.starts_with("tree ")).unwrap();
    let tree: Vec<_> =
        line.split(' ').skip(1).map(|pid| Watched::new(pid.parse().unwrap())).collect();
    assert_eq!(tree.len(), 4, "shell, daemon, and orphan in any order, then the shim");
    (host, tree)
}

#[test]
fn a_killed_orchestrator_takes_its_trees_with_it() {
    let grace = 300 * MS;
    let (mut host, tree) = doomed_host(grace);
    host.kill().unwrap();
    host.wait().unwrap();
    assert_gone(&tree, grace + 500 * MS);
}

#[test]
fn a_killed_orchestrator_and_shim_take_their_tree_with_them() {
    let (mut host, tree) = doomed_host(NEVER);
    host.kill().unwrap();
    host.wait().unwrap();
    let shim = tree.last().unwrap();
    signal(shim, Signal::KILL);
    assert_gone(&tree, Duration::from_secs(5));
}

/// Nobody is left then who could know the whole tree, but the kernel knows the leader.
#[test]
fn a_killed_orchestrator_fork_server_and_shim_take_the_leader_with_them() {
    let (mut host, mut tree) = doomed_host(NEVER);
    let shim = tree.pop().unwrap();
    let fork_server = Watched::new(parent(shim.pid));
    // The orphan is the shim's child by now, too.
    let leads =
        |p: &Watched| parent(p.pid) == shim.pid && stat_field(p.pid, 3) == p.pid.to_string();
    let leader = tree.remove(tree.iter().position(leads).unwrap());
    host.kill().unwrap();
    host.wait().unwrap();
    for who in [&fork_server, &shim] {
        signal(who, Signal::KILL);
    }
    assert_gone(&[fork_server, shim], LIMIT);
    assert_gone(std::slice::from_ref(&leader), LIMIT);
    for who in tree.iter().chain([&leader]) {
        // The orphan has no group of its own, and the leader's has a shell's child in it.
        let _ = kill_process_group(Pid::from_raw(who.pid).unwrap(), Signal::KILL);
    }
    assert_gone(&tree, LIMIT);
}
