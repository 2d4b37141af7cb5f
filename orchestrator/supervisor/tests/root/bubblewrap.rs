//! Roots that `bwrap` makes: what processes see is the same as in those of the shim.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_supervisor::{
    MountAccess, Network, Root, RootUser, Spec, Stop, Supervisor, Tmpfs, find_program,
};

use crate::common::{bounded, sh};
use crate::fixture::{app, mount, plain_supervisor, run};

/// Finds `bwrap` as `scripts/install-packages` installs it.
fn bwrap() -> PathBuf {
    let found = find_program("bwrap", "/usr/local/bin:/usr/bin:/bin", "/".as_ref());
    found.unwrap_or_else(|error| panic!("{error}; `scripts/install-packages` installs it"))
}

fn supervisor(root: &Root) -> Supervisor {
    let root = root.clone();
    plain_supervisor().with_root(move || Ok(root.clone())).with_bubblewrap(bwrap())
}

async fn script(root: &Root, text: &str) -> String {
    let ran = run(&supervisor(root), sh(&format!("set -e\n{text}"))).await.unwrap();
    assert_eq!(ran.code, Some(0), "{text}: {ran:?}");
    ran.stdout
}

#[tokio::test]
async fn files_are_seen_as_in_a_root_of_the_shim() {
    let (folder, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::write(shared.path().join("file"), "shared\n").unwrap();
    let mut root = app(folder.path());
    root.mounts.push(mount(shared.path(), "/app/inner", MountAccess::ReadOnly));
    root.tmpfs.push(Tmpfs { target: "/small".into(), max_bytes: Some(1 << 16) });
    let text = "pwd; cat inner/file; echo made > made; touch inner/x 2>/dev/null || echo read-only
        touch /usr/x /x 2>/dev/null || echo system; echo t > /tmp/t; stat -c %a /tmp
        head -c 100000 /dev/zero > /small/f 2>/dev/null || echo full
        ls / | tr '\\n' ' '; readlink /bin || :; ls /home 2>/dev/null || echo none";
    let spec = Spec { cwd: folder.path().to_owned(), ..sh(text) };
    let ours = {
        let root = root.clone();
        let by_shim = plain_supervisor().with_root(move || Ok(root.clone()));
        run(&by_shim, spec.clone()).await.unwrap()
    };
    fs::remove_file(folder.path().join("made")).unwrap();
    let ran = run(&supervisor(&root), spec).await.unwrap();
    assert_eq!((&ran.stdout, ran.code), (&ours.stdout, ours.code), "{ran:?}");
    assert!(ran.stdout.starts_with("/app\nshared\nread-only\nsystem\n1777\nfull\n"), "{ran:?}");
    assert_eq!(fs::read_to_string(folder.path().join("made")).unwrap(), "made\n");
}

#[tokio::test]
async fn paths_of_the_host_are_translated() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("own");
    fs::write(&program, "#!/bin/sh\npwd; echo $0 $TMPDIR $1\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut spec = Spec { program, cwd: folder.path().to_owned(), ..sh("") };
    spec.args = vec!["--as it is".into()];
    spec.env.insert("TMPDIR".to_owned(), folder.path().display().to_string());
    let ran = run(&supervisor(&app(folder.path())), spec).await.unwrap();
    assert_eq!(ran.stdout, "/app\n/app/own /app --as it is\n", "{ran:?}");
}

#[tokio::test]
async fn it_has_no_capability_and_sees_no_process_but_its_own() {
    let none: String =
        ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{:016}\n", 0)).concat();
    let text = "grep -E '^(Cap|NoNew)' /proc/self/status | tr -d '\\t'; ls -d /proc/[0-9]* | wc -l";
    for user in [RootUser::Caller, RootUser::Root] {
        let seen = script(&Root { user, ..Root::default() }, text).await;
        let (status, processes) = seen.split_once("NoNewPrivs:1\n").unwrap();
        assert_eq!(status, none);
        assert!(processes.trim().parse::<u32>().unwrap() < 7, "{processes}");
    }
    let root = Root { user: RootUser::Root, ..Root::default() };
    assert_eq!(script(&root, "id -u; id -g").await, "0\n0\n");
}

#[tokio::test]
async fn network_and_hostname_are_its_own() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!(
        "bash -c '(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo yes || echo no'; uname -n"
    );
    let hostname = "trial-7".into();
    let root = Root { hostname, ..Root::default() };
    assert_eq!(script(&root, &connect).await, "no\ntrial-7\n");
    let host = Root { network: Network::Host, ..root };
    assert_eq!(script(&host, &connect).await, "yes\ntrial-7\n");
}

#[tokio::test]
async fn everything_in_it_ends_with_the_leader_or_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alive");
    // The file stays locked for as long as anything of the tree runs.
    let hold = "exec 9>/app/alive; flock -n 9; (setsid sleep 1000 &) ; echo ready; ";
    let is_free = || {
        let free = fs::File::open(&file).unwrap();
        free.lock().unwrap();
    };
    let ran = run(&supervisor(&app(folder.path())), sh(&format!("{hold} exit 7"))).await.unwrap();
    assert_eq!(ran.code, Some(7));
    is_free();
    for stop in [Stop::Terminate, Stop::Kill] {
        let spec = Spec { cwd: "/".into(), ..sh(&format!("{hold} sleep 1000")) };
        let mut process = supervisor(&app(folder.path())).spawn(spec).await.unwrap();
        assert_eq!(bounded("its output", process.next()).await.unwrap().bytes, b"ready\n");
        process.stop(stop);
        let exit = bounded("its end", process.wait()).await;
        assert!(exit.stopped, "{exit:?}");
        is_free();
    }
}

#[tokio::test]
async fn what_does_not_exist_in_it_is_said_and_nothing_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let root = app(folder.path());
    for spec in [
        Spec { program: "/home/none".into(), ..sh("") },
        Spec { cwd: "/home/none".into(), ..sh("echo started") },
    ] {
        let ran = run(&supervisor(&root), spec).await.unwrap();
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("bwrap") && ran.stderr.contains("/home/none"), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
    let gone = Root {
        mounts: vec![mount(Path::new("/no/such"), "/app", MountAccess::Writable)],
        ..Root::default()
    };
    let error = run(&supervisor(&gone), sh("")).await.unwrap_err().to_string();
    assert!(error.contains("`/no/such`"), "{error}");
}
