//! Starting a process when its user may not have another one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs
)]

mod alone;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use alone::{LIMIT, SHIM, spec, supervisor};
use ralph_orchestrator_supervisor::SpawnError;
use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
use tokio::time::timeout;

const NAME: &str = "without_room_for_another_process_the_error_says_so";
/// Nobody's number: the kernel bounds no processes of root.
const NOBODY: &str = "54321";
/// Where the copy of the shim lies that this user may execute.
const OWN_SHIM: &str = "RALPH_TEST_SHIM";

#[tokio::test]
async fn without_room_for_another_process_the_error_says_so() {
    match env::var(OWN_SHIM).ok() {
        None if getuid().is_root() => as_somebody_else(),
        None => fill(SHIM).await,
        Some(shim) => fill(&shim).await,
    }
}

/// This test again, for a user who is not root.
fn as_somebody_else() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        to
    };
    let test = copy(&env::current_exe().unwrap(), "test");
    let shim = copy(Path::new(SHIM), "shim");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(test)
        .args(["--exact", NAME, "--nocapture"])
        .env(OWN_SHIM, shim)
        .current_dir("/")
        .output()
        .expect("setpriv, which comes with util-linux");
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{}", output.status);
}

async fn fill(shim: &str) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    // Each number of further processes fails at another step, until there are enough. Begun below what
    // is there already, some of which may just be going.
    let (mut failures, mut most) = (0, tasks().saturating_sub(8).max(1));
    let supervisor = loop {
        setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum }).unwrap();
        // What it starts inherits the limit as it is now.
        let supervisor = supervisor(shim);
        match timeout(LIMIT, supervisor.spawn(spec("/bin/true", &[]))).await.unwrap() {
            Ok(mut process) => {
                timeout(LIMIT, process.wait()).await.expect("the exit");
                break supervisor;
            }
            Err(e) => {
                assert!(matches!(e, SpawnError::NoResources { .. }), "{failures}, {most}: {e}");
                assert!(e.to_string().contains("/bin/true"), "{e}");
            }
        }
        failures += 1;
        most += 1;
        assert!(failures < 1_000, "it never succeeds");
    };
    assert!(failures > 2, "only {failures} failures, where a start makes three processes");
    // And as ever, once there is room.
    let mut process = supervisor.spawn(spec("/bin/sh", &["-c", "exit 7"])).await.unwrap();
    let exit = timeout(LIMIT, process.wait()).await.expect("the exit");
    assert_eq!(exit.to_string(), "exit 7");
}

/// How many processes and threads this user has.
fn tasks() -> u64 {
    let me = getuid().as_raw().to_string();
    let statuses = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("status")).ok());
    let value = |status: &str, key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    statuses
        .filter(|status| value(status, "Uid:").as_ref() == Some(&me))
        .filter_map(|status| value(&status, "Threads:")?.parse::<u64>().ok())
        .sum()
}
