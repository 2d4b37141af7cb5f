//! The processes of a view: what they may do, how they end, and that all of it is over then.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_supervisor::{Ending, Process, Spec, Stop, Supervisor};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    LIMIT, MS, NEVER, Watched, assert_gone, bounded, eventually, lines, parent, with_grace,
};
use crate::fixture::{Fixture, OWN_SHIM, require, run, shim};
use crate::support::behind;

async fn start(supervisor: &Supervisor, spec: Spec) -> Process {
    bounded("the start in a view", supervisor.spawn(spec)).await.unwrap()
}

fn leader(process: &Process) -> i32 {
    i32::try_from(process.id().unwrap()).unwrap()
}

fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Everything beneath the shim, by the pids outside.
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

/// Whether something is mounted at this path for a process that can be seen.
fn is_mounted(path: &Path) -> bool {
    let tables = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("mountinfo")).ok());
    let at = format!(" {} ", path.display());
    tables.into_iter().any(|table| table.contains(&at))
}

#[tokio::test]
async fn every_exit_code_and_signal_is_reported_as_without_a_view() {
    let fixture = Fixture::new();
    let supervisor = fixture.supervisor();
    for code in [0, 1, 2, 77, 127, 255] {
        let ran = run(&supervisor, fixture.sh(&format!("exit {code}"))).await.unwrap();
        assert_eq!(ran.code, Some(code));
    }
    for signal in [1, 2, 6, 9, 11, 15] {
        let spec = fixture.sh(&format!("ulimit -c 0; kill -{signal} $$; sleep 1000"));
        let mut process = start(&supervisor, spec).await;
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!(exit.ending, Ending::Signaled { signal, core: false });
        assert!(!exit.stopped && !exit.killed);
    }
}

#[tokio::test]
async fn nothing_can_be_unmounted_and_no_capability_for_it_be_had() {
    let fixture = Fixture::new();
    fs::write(fixture.ws.join("file"), "merged").unwrap();
    let text = "umount . 2>/dev/null && echo unmounted; umount -l \"$PWD\" 2>/dev/null && echo unmounted
        mount -t tmpfs none . 2>/dev/null && echo mounted; mount -o remount,ro . 2>/dev/null && echo remounted
        unshare -m true 2>/dev/null && echo unshared
        unshare -Urm sh -c \"umount '$PWD' 2>/dev/null\" && echo unmounted
        cd /; cd - >/dev/null; cat file; echo; grep -E '^(CapEff|CapBnd|NoNew)' /proc/self/status | tr -d '\\t'";
    let ran = run(&fixture.supervisor(), fixture.sh(text)).await.unwrap();
    let status = ran.stdout.strip_prefix("merged\n").unwrap_or_else(|| panic!("{ran:?}"));
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let set = |name| u64::from_str_radix(field(name), 16).unwrap();
    let mounting = 1 << 21;
    if rustix::process::geteuid().is_root() {
        let own = fs::read_to_string("/proc/self/status").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        assert_eq!(set("CapEff:"), u64::from_str_radix(own, 16).unwrap() & !mounting);
        assert_eq!(set("CapBnd:") & mounting, 0);
        assert_eq!(field("NoNewPrivs:"), "0");
    } else {
        assert_eq!(set("CapEff:"), 0);
        assert_eq!(field("NoNewPrivs:"), "1");
    }
}

/// Whatever is shared between the host's mounts and others.
#[tokio::test]
#[allow(clippy::disallowed_methods)]
async fn mounts_pass_from_the_host_to_the_view_and_never_back() {
    let fixture = Fixture::new();
    let later = fixture.folder("later");
    let shared = "mount --bind \"$1\" \"$1\"; mount --make-rshared /";
    let supervisor = behind(shared, &[&later]).with_view(fixture.view());
    let text = "echo ready; read x; ls \"$LATER\"";
    let mut spec = fixture.sh(text);
    spec.env.insert("LATER".to_owned(), later.display().to_string());
    let (mut process, input) = supervisor.spawn_with_input(spec).await.unwrap();
    lines(&mut process, 1).await;
    let shim = parent(leader(&process)).to_string();
    let table = |pid: &str| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let overlay = format!(" {} ", fixture.ws.display());
    assert!(table(&leader(&process).to_string()).contains(&overlay));
    assert!(!table(&shim).contains(&overlay), "{}", table(&shim));
    let mount = "mount -t tmpfs none \"$0\" && touch \"$0/mounted\"";
    let mounted = std::process::Command::new(require("nsenter", "util-linux"))
        .args(["-t", &shim, "-U", "-m", "--preserve-credentials", "sh", "-c", mount])
        .arg(&later)
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    drop(input);
    assert_eq!(lines(&mut process, 1).await, ["mounted"]);
    assert!(bounded("the exit", process.wait()).await.ending.is_success());
}

#[tokio::test]
async fn process_numbers_and_proc_are_its_own() {
    let fixture = Fixture::new();
    let seen = fixture.script("echo $$; readlink /proc/self | grep -c .; cat /proc/1/comm").await;
    assert_eq!(seen, "2\n1\nralph-init\n");
}

#[tokio::test]
async fn a_daemon_ends_with_its_tree_and_the_upper_folder_is_free_then() {
    let fixture = Fixture::new();
    let supervisor = fixture.supervisor();
    let text = "p=$(setsid -f sh -c 'trap \"\" TERM; echo $$; exec >/dev/null; exec 3>held; sleep 1000; sleep 1000'); echo $p";
    let is_free = |fixture: &Fixture| {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // With an index the kernel refuses what another mount still uses.
        let overlay = &fixture.overlay;
        let options = format!(
            "index=on,userxattr,lowerdir={},upperdir={},workdir={}",
            overlay.target.display(),
            overlay.upper.display(),
            overlay.work.display()
        );
        #[allow(clippy::disallowed_methods)]
        let mounted = std::process::Command::new(require("unshare", "util-linux"))
            .args(["-m", "mount", "-t", "overlay", "overlay", "-o", &options])
            .arg(&overlay.target)
            .output()
            .unwrap();
        assert!(mounted.status.success(), "{mounted:?}");
    };
    for _ in 0..20 {
        let mut process = start(&supervisor, with_grace(fixture.sh(text), NEVER, MS)).await;
        lines(&mut process, 1).await;
        let exit = bounded("the exit", process.wait()).await;
        assert_eq!(exit.ending, Ending::Exited(0));
        assert!(exit.left_behind.iter().any(|name| name.starts_with("sh -c ")), "{exit:?}");
        assert!(exit.survived.is_empty(), "{exit:?}");
        is_free(&fixture);
        // Another user of the upper folder leaves its index there.
        for folder in [&fixture.overlay.upper, &fixture.overlay.work] {
            ralph_orchestrator_safe_fs::remove_layer(folder).unwrap();
            fs::create_dir(folder).unwrap();
        }
    }
}

#[tokio::test]
async fn a_stop_reaches_the_program_and_all_of_it_ends() {
    let fixture = Fixture::new();
    let text = "trap 'echo int' INT; trap 'echo term' TERM; (setsid sleep 1000 &); echo ready
        while :; do sleep 1000 & wait; done";
    let mut process = start(&fixture.supervisor(), fixture.sh(text)).await;
    lines(&mut process, 1).await;
    process.stop(Stop::Gracefully);
    assert_eq!(lines(&mut process, 1).await, ["int"]);
    process.stop(Stop::Terminate);
    assert_eq!(lines(&mut process, 1).await, ["term"]);
    let all = inside(&process);
    process.stop(Stop::Kill);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert!(exit.stopped && exit.killed && exit.survived.is_empty(), "{exit:?}");
    assert_gone(&all, Duration::ZERO);
}

#[tokio::test]
async fn one_shim_starts_trees_with_and_without_a_view() {
    let fixture = Fixture::new();
    fs::write(fixture.folder("top").join("only-inside"), "").unwrap();
    let mut view = fixture.view();
    view.overlays[0].layers.insert(0, fixture.folder("top"));
    let plain = crate::fixture::plain_supervisor();
    let viewing = plain.clone().with_view(view);
    let (mut shim, mut descriptors) = (None, None);
    for round in 0..6 {
        let supervisor = if round % 2 == 0 { &viewing } else { &plain };
        let spec = fixture.sh("[ -e only-inside ]; echo $?; cat");
        let (mut process, input) = supervisor.spawn_with_input(spec).await.unwrap();
        let own = parent(leader(&process));
        assert_eq!(*shim.get_or_insert(own), own, "the same one");
        drop(input);
        assert_eq!(lines(&mut process, 1).await[0], (round % 2).to_string());
        assert!(bounded("the exit", process.wait()).await.ending.is_success());
        assert_eq!(children(own), Vec::<i32>::new());
        let open = fs::read_dir(format!("/proc/{own}/fd")).unwrap().count();
        assert_eq!(*descriptors.get_or_insert(open), open, "descriptors of the shim");
    }
}

#[tokio::test]
async fn output_passes_through_and_no_descriptor_leaks() {
    let fixture = Fixture::new();
    let mut spec = fixture.sh("cat; echo err >&2; ls /proc/self/fd | tr '\\n' ' '");
    spec.stdin = vec![b'x'; 300_000];
    let ran = run(&fixture.supervisor(), spec).await.unwrap();
    // The listing has one open itself.
    assert!(ran.stdout.ends_with("x0 1 2 3 "), "{}", ran.stdout.len());
    assert_eq!((ran.stderr.as_str(), ran.code), ("err\n", Some(0)));
}

/// A container that hides parts of `/proc`, so that there can be no other.
#[tokio::test]
async fn where_proc_is_hidden_the_tree_has_the_hosts_process_numbers() {
    let fixture = Fixture::new();
    let hide =
        "mount -t tmpfs none /proc/fs; exec unshare --user --map-root-user --mount -- \"$0\"";
    let hidden = behind(hide, &[]).with_view(fixture.view());
    let text = "[ $(readlink /proc/self/ns/pid) = $PIDS ]; echo $?; echo x > made
        p=$(setsid -f sh -c 'trap \"\" TERM; echo $$; exec >/dev/null sleep 1000'); echo $p; exit 7";
    let mut spec = with_grace(fixture.sh(text), NEVER, MS);
    let pids = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    spec.env.insert("PIDS".to_owned(), pids);
    let mut process = start(&hidden, spec).await;
    let printed = lines(&mut process, 2).await;
    let daemon = Watched::new(printed[1].parse().unwrap());
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!((printed[0].as_str(), exit.ending), ("0", Ending::Exited(7)));
    assert!(!exit.left_behind.is_empty() && exit.survived.is_empty(), "{exit:?}");
    assert_gone(&[daemon], Duration::ZERO);
    assert!(fixture.overlay.upper.join("made").exists() && !fixture.ws.join("made").exists());
}

const DOOMED: &str = "SUPERVISE_TEST_DOOMED_VIEW";

/// Not a test but what the next one kills: it starts a tree in a view that ignores SIGTERM, and waits.
#[tokio::test]
async fn doomed() {
    let Some(folder) = std::env::var_os(DOOMED) else { return };
    let text = "trap '' TERM; setsid sh -c 'trap \"\" TERM; exec 3>held; echo $$; sleep 1000; sleep 1000' & \
         sleep 1000; sleep 1000";
    let folder = std::path::PathBuf::from(folder);
    let mut overlay = Fixture::new().overlay.clone();
    (overlay.target, overlay.layers) = (folder.join("ws"), vec![folder.join("ws")]);
    (overlay.upper, overlay.work) = (folder.join("store/upper"), folder.join("store/work"));
    let cwd = overlay.target.clone();
    let view = ralph_orchestrator_supervisor::View { overlays: vec![overlay], mounts: Vec::new() };
    let spec = Spec { cwd, ..with_grace(crate::common::sh(text), NEVER, 200 * MS) };
    let mut process = start(&crate::fixture::plain_supervisor().with_view(view), spec).await;
    lines(&mut process, 1).await;
    let all: Vec<_> = inside(&process).iter().map(|one| one.pid.to_string()).collect();
    let shim = parent(leader(&process));
    let line = format!("\ntree {shim} {}\n", all.join(" "));
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    tokio::time::sleep(NEVER).await;
}

#[allow(clippy::disallowed_methods)]
fn kill_host(fixture: &Fixture, with_its_keepers: bool) {
    use std::io::BufRead as _;
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::doomed", "--nocapture"])
        .env(DOOMED, fixture.ws.parent().unwrap())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(host.stdout.take().unwrap());
    let line = output.lines().map(Result::unwrap).find(|line| line.starts_with("tree ")).unwrap();
    let pids = line.split(' ').skip(1);
    let tree: Vec<_> = pids.map(|pid| Watched::new(pid.parse().unwrap())).collect();
    assert!(tree.len() >= 5, "shim, init, leader, daemon, and a sleep");
    assert!(is_mounted(&fixture.ws));
    let fork_server = Watched::new(parent(tree[0].pid));
    host.kill().unwrap();
    host.wait().unwrap();
    if with_its_keepers {
        kill(&fork_server);
        kill(&tree[0]);
    }
    assert_gone(&tree, LIMIT);
    assert!(!is_mounted(&fixture.ws), "something is still mounted");
}

#[tokio::test]
async fn a_killed_orchestrator_leaves_no_process_and_no_mount() {
    for with_its_keepers in [false, true] {
        let fixture = Fixture::new();
        kill_host(&fixture, with_its_keepers);
        assert_eq!(fs::read_dir(&fixture.ws).unwrap().count(), 0);
        assert_eq!(fixture.script("ls").await, "held\n", "the upper folder can be used again");
    }
}

#[tokio::test]
async fn orphans_are_reaped_while_the_leader_runs() {
    let fixture = Fixture::new();
    let text = "for i in 1 2 3 4 5; do (sh -c 'exit 1' & exit 0); (setsid true &); done; echo made; read x; exit 7";
    let (mut process, input) =
        fixture.supervisor().spawn_with_input(fixture.sh(text)).await.unwrap();
    lines(&mut process, 1).await;
    let shim = parent(leader(&process));
    let init = children(shim).into_iter().find(|pid| *pid != leader(&process)).unwrap();
    eventually("all orphans to be reaped", || children(init).is_empty()).await;
    drop(input);
    let exit = bounded("the exit", process.wait()).await;
    assert_eq!((exit.ending, exit.left_behind.len()), (Ending::Exited(7), 0));
}

/// All of these tests again, for a user who is not root.
#[test]
#[allow(clippy::disallowed_methods)]
fn without_privileges_everything_is_the_same() {
    if std::env::var_os(OWN_SHIM).is_some() || !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, open()).unwrap();
        to
    };
    let test = copy(&std::env::current_exe().unwrap(), "test");
    let shim = copy(&shim(), "shim");
    fs::set_permissions(folder.path(), open()).unwrap();
    let output = std::process::Command::new(require("setpriv", "util-linux"))
        .args(["--reuid=54323", "--regid=54323", "--clear-groups"])
        .arg(test)
        .env(OWN_SHIM, shim)
        .current_dir("/")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        printed.contains("a_middle_layer_hides") && !printed.contains(" 0 passed"),
        "{printed}"
    );
}
