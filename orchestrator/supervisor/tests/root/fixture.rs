//! Short ways to start shells in a root.

use std::future::pending;
use std::path::{Path, PathBuf};

use ralph_orchestrator_supervisor::{
    CaptureLimit, Mount, MountAccess, Root, SpawnError, Spec, Supervisor, find_program,
};

use crate::common::{bounded, sh};

/// The shim for a user who cannot reach the one that was built.
pub(crate) const OWN_SHIM: &str = "RALPH_TEST_SHIM";

pub(crate) fn plain_supervisor() -> Supervisor {
    let shim = std::env::var_os(OWN_SHIM).map(PathBuf::from);
    Supervisor::new(
        shim.unwrap_or_else(|| env!("CARGO_BIN_EXE_ralph-supervisor-shim").into()),
        Vec::new(),
    )
}

pub(crate) fn supervisor(root: &Root) -> Supervisor {
    let root = root.clone();
    plain_supervisor().with_root(move || Ok(root.clone()))
}

pub(crate) fn mount(source: &Path, target: &str, access: MountAccess) -> Mount {
    Mount { source: source.to_owned(), target: target.into(), access }
}

/// A root that shows a folder of the host at `/app`, to be written.
pub(crate) fn app(folder: &Path) -> Root {
    Root { mounts: vec![mount(folder, "/app", MountAccess::Writable)], ..Root::default() }
}

/// What a process printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

pub(crate) async fn run(supervisor: &Supervisor, spec: Spec) -> Result<Ran, SpawnError> {
    let output = supervisor.output(spec, CaptureLimit::default(), pending());
    let output = bounded("the end of a process in a root", output).await?;
    Ok(Ran {
        stdout: output.stdout.text(),
        stderr: output.stderr.text(),
        code: output.exit.ending.code(),
    })
}

/// Runs a script that has to succeed, and returns what it printed.
pub(crate) async fn script(root: &Root, script: &str) -> String {
    let ran = run(&supervisor(root), sh(&format!("set -e\n{script}"))).await.unwrap();
    assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
    ran.stdout
}

/// Fails with the command that installs these programs of a Debian package, if one is missing.
pub(crate) fn require(programs: &[&str], package: &str) {
    for name in programs {
        let found = find_program(name, "/usr/bin:/bin", "/".as_ref());
        assert!(found.is_ok(), "`{name}` is missing: apt-get install {package}");
    }
}
