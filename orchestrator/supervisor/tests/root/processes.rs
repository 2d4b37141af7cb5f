//! The processes of a root: what they see of each other, how they end, and who ends them.

use std::fs;
use std::time::{Duration, Instant};

use ralph_orchestrator_supervisor::{Ending, Process, Root, Spec, Stop};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    LIMIT, MS, NEVER, Watched, assert_gone, bounded, eventually, lines, parent, program, sh,
    stat_field, with_grace,
};
use crate::fixture::{OWN_SHIM, app, require, run, script, supervisor};

pub(crate) async fn start(root: &Root, spec: Spec) -> Process {
    bounded("the start in a root", supervisor(root).spawn(spec)).await.unwrap()
}

fn leader(process: &Process) -> i32 {
    i32::try_from(process.id().unwrap()).unwrap()
}

fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Pid 1 of the process's root, by its pid outside.
fn init_of(process: &Process) -> Watched {
    let leader = leader(process);
    let others = children(parent(leader)).into_iter().filter(|pid| *pid != leader);
    let init: Vec<i32> = others.collect();
    assert_eq!(init.len(), 1, "a shim has its leader and init");
    Watched::new(init[0])
}

/// Everything inside, by the pids outside.
fn inside(process: &Process) -> Vec<Watched> {
    let (mut found, mut next) = (Vec::new(), vec![parent(leader(process))]);
    while let Some(pid) = next.pop() {
        let below = children(pid);
        next.extend(&below);
        found.extend(below.into_iter().map(Watched::new));
    }
    found
}

fn kill(who: &Watched) {
    kill_process(Pid::from_raw(who.pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn it_sees_no_process_but_its_own() {
    let seen =
        script(&Root::default(), "echo $$; cd /proc; ls -d [0-9]* | sort -n | head -n 2").await;
    assert_eq!(seen, "2\n1\n2\n");
    let own = std::process::id();
    let text = format!("kill -0 {own} 2>/dev/null && echo yes; [ ! -e /proc/{own} ]");
    assert!(own < 1000 || script(&Root::default(), &text).await.is_empty());
}

#[tokio::test]
async fn it_can_gain_no_privilege() {
    let folder = tempfile::tempdir().unwrap();
    let text = "grep -E '^(Cap|NoNew)' /proc/self/status | tr -d '\\t'";
    let none: String =
        ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{:016}\n", 0)).concat();
    for user in [Default::default(), ralph_orchestrator_supervisor::RootUser::Root] {
        let root = Root { user, ..app(folder.path()) };
        assert_eq!(script(&root, text).await, format!("{none}NoNewPrivs:1\n"));
    }
}

#[tokio::test]
async fn every_exit_code_and_signal_is_reported_as_without_a_root() {
    let supervisor = supervisor(&Root::default());
    for code in 0..=255 {
        assert_eq!(run(&supervisor, sh(&format!("exit {code}"))).await.unwrap().code, Some(code));
    }
    // Those that end a process and that a shell can send itself.
    for signal in [1, 2, 3, 6, 9, 13, 14, 15, 10, 12, 11] {
        let spec = sh(&format!("ulimit -c 0; kill -{signal} $$; sleep 1000"));
        let mut process = bounded("the start", supervisor.spawn(spec)).await.unwrap();
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!(exit.ending, Ending::Signaled { signal, core: false });
        assert!(!exit.stopped && !exit.killed);
    }
}

#[tokio::test]
async fn orphans_are_reaped_while_the_leader_runs() {
    let text = "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 1' & exit 0); (setsid true &); done
        echo made; read x; exit 7";
    let (mut process, input) =
        supervisor(&Root::default()).spawn_with_input(sh(text)).await.unwrap();
    lines(&mut process, 1).await;
    let init = init_of(&process);
    eventually("all orphans to be reaped", || children(init.pid).is_empty()).await;
    drop(input);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(7));
    assert_eq!(exit.left_behind, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_leader_leaves_behind_is_named_and_ended() {
    let text = "p=$(setsid -f sh -c 'echo $$; exec >/dev/null sleep 1000')
        until read n < /proc/$p/comm && [ $n = sleep ]; do :; done; echo $p";
    let mut spec = sh(text);
    spec.grace.leftovers = NEVER;
    let mut process = start(&Root::default(), spec).await;
    lines(&mut process, 1).await;
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(0));
    assert_eq!(exit.left_behind, ["sleep 1000"], "and not init");
    assert!(!exit.leaked && !exit.stopped && !exit.killed && exit.survived.is_empty(), "{exit:?}");
}

#[tokio::test]
async fn a_deaf_daemon_is_killed_after_its_grace() {
    let text = "(setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' &) ; sleep 1000";
    let mut process = start(&Root::default(), with_grace(sh(text), NEVER, 100 * MS)).await;
    lines(&mut process, 1).await;
    let all = inside(&process);
    assert!(all.len() >= 4, "init, leader, daemon and a sleep");
    kill(&Watched::new(leader(&process)));
    let begin = Instant::now();
    let exit = bounded("the exit", process.wait()).await;
    assert!(begin.elapsed() >= 100 * MS, "the grace was cut short");
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert!(exit.left_behind.iter().any(|name| name.starts_with("sh -c ")), "{exit:?}");
    assert_gone(&all, Duration::ZERO);
}

#[tokio::test]
async fn each_step_of_a_stop_reaches_the_program() {
    let text = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let mut process = start(&Root::default(), sh(text)).await;
    lines(&mut process, 1).await;
    process.stop(Stop::Gracefully);
    assert_eq!(lines(&mut process, 1).await, ["int"]);
    process.stop(Stop::Terminate);
    assert_eq!(lines(&mut process, 1).await, ["term"]);
    let all = inside(&process);
    process.stop(Stop::Kill);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert!(exit.stopped && exit.killed);
    assert_gone(&all, Duration::ZERO);
}

#[tokio::test]
async fn a_tree_that_forks_while_it_is_killed_is_ended_at_once() {
    let text = "trap '' TERM; f() { trap '' TERM; while :; do setsid sleep 1000 & sleep 0.001; done; }; \
         f & f & f & echo go; wait";
    let mut process = start(&Root::default(), sh(text)).await;
    lines(&mut process, 1).await;
    process.stop(Stop::Kill);
    let exit = bounded("the exit", process.wait()).await;
    assert!(exit.survived.is_empty() && exit.killed, "{exit:?}");
}

#[tokio::test]
async fn killing_init_or_the_shim_ends_everything_inside() {
    let text = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' & \
         sleep 1000; sleep 1000";
    for shim in [false, true] {
        let mut process = start(&Root::default(), sh(text)).await;
        lines(&mut process, 1).await;
        let all = inside(&process);
        let target = if shim { Watched::new(parent(leader(&process))) } else { init_of(&process) };
        kill(&target);
        let exit = bounded("the exit", process.wait()).await;
        let killed = Ending::Signaled { signal: 9, core: false };
        assert_eq!(exit.ending, if shim { Ending::Lost } else { killed });
        assert_gone(&all, Duration::ZERO);
    }
}

/// Init is of no use to who is inside: it neither ends by a signal from there nor can be stopped.
#[tokio::test]
async fn init_cannot_be_ended_from_inside() {
    let text = "kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; (sh -c 'true' &); echo on; read x; exit 4";
    let (mut process, input) =
        supervisor(&Root::default()).spawn_with_input(sh(text)).await.unwrap();
    lines(&mut process, 1).await;
    let init = init_of(&process);
    eventually("the orphan to be reaped", || children(init.pid).is_empty()).await;
    drop(input);
    assert_eq!(bounded("the exit", process.wait()).await.ending, Ending::Exited(4));
    assert_gone(&[init], Duration::ZERO);
}

#[tokio::test]
async fn two_at_once_share_only_what_is_mounted() {
    require(&["ipcmk", "ipcs", "hostname"], "util-linux hostname");
    let folder = tempfile::tempdir().unwrap();
    let text =
        "echo $HERE > /tmp/own; touch /app/$HERE; until [ -e /app/$OTHER ]; do sleep 0.01; done
        cat /tmp/own; ls /tmp; echo $$; ipcmk -Q > /dev/null; ipcs -q | grep -c 0x; hostname";
    let one = |here: &str, other: &str| {
        let mut spec = sh(text);
        spec.env
            .extend([("HERE".to_owned(), here.to_owned()), ("OTHER".to_owned(), other.to_owned())]);
        let supervisor = supervisor(&app(folder.path()));
        async move { run(&supervisor, spec).await.unwrap().stdout }
    };
    let (a, b) = tokio::join!(one("a", "b"), one("b", "a"));
    assert_eq!(
        (a.as_str(), b.as_str()),
        ("a\nown\n2\n1\nlocalhost\n", "b\nown\n2\n1\nlocalhost\n")
    );
}

#[tokio::test]
async fn one_shim_starts_trees_with_and_without_a_root() {
    let (folder, plain) = (tempfile::tempdir().unwrap(), crate::fixture::plain_supervisor());
    fs::write(folder.path().join("only-inside"), "").unwrap();
    let root = app(folder.path());
    let rooted = plain.clone().with_root(move || Ok(root.clone()));
    let (mut shim, mut descriptors) = (None, None);
    for round in 0..6 {
        let supervisor = if round % 2 == 0 { &rooted } else { &plain };
        let mut spec = sh("[ -e /app/only-inside ]; echo $?; cat");
        spec.stdin = b"in".to_vec();
        let (mut process, input) = supervisor.spawn_with_input(spec).await.unwrap();
        let own = parent(leader(&process));
        assert_eq!(*shim.get_or_insert(own), own, "the same one");
        drop(input);
        let seen = lines(&mut process, 1).await;
        assert_eq!(seen[0], (round % 2).to_string());
        assert!(bounded("the exit", process.wait()).await.ending.is_success());
        assert_eq!(children(own), Vec::<i32>::new());
        let open = fs::read_dir(format!("/proc/{own}/fd")).unwrap().count();
        assert_eq!(*descriptors.get_or_insert(open), open, "descriptors of the shim");
    }
}

/// The kernel lets a process that is root inside map no root of its own without a capability, and would refuse
/// it another `/proc` as well: the host's superuser could write the kernel's settings through it.
#[tokio::test]
async fn a_root_in_a_root_works_for_who_is_not_the_hosts_superuser() {
    require(&["unshare"], "util-linux");
    let folder = tempfile::tempdir().unwrap();
    let text = "exec unshare --user --map-root-user --mount --pid --fork --mount-proc sh -c 'echo $$; ls -A /app'";
    fs::write(folder.path().join("x"), "").unwrap();
    let ran = run(&supervisor(&app(folder.path())), sh(text)).await.unwrap();
    if rustix::process::geteuid().is_root() {
        assert!(ran.code != Some(0) && ran.stderr.contains("not permitted"), "{ran:?}");
    } else {
        assert_eq!(ran.stdout, "1\nx\n", "{ran:?}");
    }
}

const DOOMED: &str = "SUPERVISE_TEST_DOOMED_ROOT";

/// Not a test but what the next one kills: it starts a tree in a root that ignores SIGTERM, and waits.
#[tokio::test]
async fn doomed() {
    if std::env::var_os(DOOMED).is_none() {
        return;
    }
    let text = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' & \
         sleep 1000; sleep 1000";
    let mut process = start(&Root::default(), with_grace(sh(text), NEVER, 200 * MS)).await;
    lines(&mut process, 1).await;
    let all: Vec<_> = inside(&process).iter().map(|one| one.pid.to_string()).collect();
    let line = format!("\ntree {} {}\n", parent(leader(&process)), all.join(" "));
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    tokio::time::sleep(NEVER).await;
}

#[allow(clippy::disallowed_methods)]
fn doomed_host() -> (std::process::Child, Vec<Watched>) {
    use std::io::BufRead as _;
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::doomed", "--nocapture"])
        .env(DOOMED, "1")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(host.stdout.take().unwrap());
    let line = output.lines().map(Result::unwrap).find(|line| line.starts_with("tree ")).unwrap();
    let tree = line.split(' ').skip(1).map(|pid| Watched::new(pid.parse().unwrap())).collect();
    (host, tree)
}

#[test]
fn a_killed_orchestrator_takes_its_roots_with_it() {
    let (mut host, tree) = doomed_host();
    assert!(tree.len() >= 5, "shim, init, leader, daemon, and a sleep");
    host.kill().unwrap();
    host.wait().unwrap();
    assert_gone(&tree, 200 * MS + 2000 * MS);
}

/// Without a root only the leader would be known then.
#[test]
fn a_killed_orchestrator_fork_server_and_shim_take_their_roots_with_them() {
    let (mut host, tree) = doomed_host();
    let fork_server = Watched::new(parent(tree[0].pid));
    host.kill().unwrap();
    host.wait().unwrap();
    kill(&fork_server);
    kill(&tree[0]);
    assert_gone(&[fork_server], LIMIT);
    assert_gone(&tree, LIMIT);
}

#[tokio::test]
async fn output_passes_through_and_no_descriptor_leaks() {
    let mut spec = sh(
        "cat; echo err >&2; ls /proc/self/fd | tr '\\n' ' '; readlink /proc/1/fd/0 /proc/1/exe /proc/1/cwd | wc -l",
    );
    spec.stdin = vec![b'x'; 300_000];
    let ran = run(&supervisor(&Root::default()), spec).await.unwrap();
    // The listing has one open itself.
    assert!(ran.stdout.ends_with("x0 1 2 3 0\n"), "{}", ran.stdout.len());
    assert_eq!((ran.stderr.as_str(), ran.code), ("err\n", Some(0)));
    let process = start(&Root::default(), sh("sleep 1000")).await;
    let init = init_of(&process).pid;
    let kinds: Vec<_> = fs::read_dir(format!("/proc/{init}/fd"))
        .map(|fds| fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok()).collect())
        .unwrap_or_default();
    assert!(kinds.len() <= 5, "three times null, lifeline, signals: {kinds:?}");
    assert_eq!(stat_field(init, 1), parent(leader(&process)).to_string());
}

/// All of these tests again, for a user who is not root.
#[test]
#[allow(clippy::disallowed_methods)]
fn without_privileges_everything_is_the_same() {
    if std::env::var_os(OWN_SHIM).is_some() || !rustix::process::geteuid().is_root() {
        return;
    }
    require(&["setpriv"], "util-linux");
    let folder = tempfile::tempdir().unwrap();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let copy = |from: &std::path::Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, open()).unwrap();
        to
    };
    let test = copy(&std::env::current_exe().unwrap(), "test");
    let shim = copy(env!("CARGO_BIN_EXE_ralph-supervisor-shim").as_ref(), "shim");
    fs::set_permissions(folder.path(), open()).unwrap();
    let output = std::process::Command::new(program("setpriv"))
        .args(["--reuid=54322", "--regid=54322", "--clear-groups"])
        .arg(test)
        .env(OWN_SHIM, shim)
        .current_dir("/")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("a_root_in_a_root") && !printed.contains(" 0 passed"), "{printed}");
}
