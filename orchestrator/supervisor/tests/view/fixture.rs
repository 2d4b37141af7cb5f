//! A workspace with an overlay over it, and short ways to start shells there.

use std::fs;
use std::future::pending;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_supervisor::{CaptureLimit, Overlay, SpawnError, Spec, Supervisor, View};

use crate::common::{bounded, sh};

/// The shim for a user who cannot reach the one that was built.
pub(crate) const OWN_SHIM: &str = "RALPH_TEST_SHIM";

pub(crate) fn shim() -> PathBuf {
    let shim = std::env::var_os(OWN_SHIM).map(PathBuf::from);
    shim.unwrap_or_else(|| env!("CARGO_BIN_EXE_ralph-supervisor-shim").into())
}

pub(crate) fn plain_supervisor() -> Supervisor {
    Supervisor::new(shim(), Vec::new())
}

/// A workspace `ws` and the storage of its overlay, in a folder of its own.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ws: PathBuf,
    pub(crate) overlay: Overlay,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::named("ws".as_ref(), "store".as_ref())
    }

    pub(crate) fn named(ws: &Path, store: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (ws, store) = (root.join(ws), root.join(store));
        let (upper, work) = (store.join("upper"), store.join("work"));
        for path in [&ws, &upper, &work] {
            fs::create_dir_all(path).unwrap();
        }
        let overlay = Overlay { target: ws.clone(), layers: vec![ws.clone()], upper, work };
        Self { folder, ws, overlay }
    }

    pub(crate) fn view(&self) -> View {
        View { overlays: vec![self.overlay.clone()], mounts: Vec::new() }
    }

    pub(crate) fn supervisor(&self) -> Supervisor {
        plain_supervisor().with_view(self.view())
    }

    pub(crate) fn sh(&self, script: &str) -> Spec {
        Spec { cwd: self.ws.clone(), ..sh(script) }
    }

    /// Runs a script in the workspace that has to succeed, and returns what it printed.
    pub(crate) async fn script(&self, script: &str) -> String {
        let ran = run(&self.supervisor(), self.sh(&format!("set -e\n{script}"))).await.unwrap();
        assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
        ran.stdout
    }

    /// A new folder beneath which a layer is made.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // What the kernel leaves there nobody may enter.
        let _ = ralph_orchestrator_safe_fs::remove_layer(&self.overlay.work);
    }
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
    let output = bounded("the end of a process in a view", output).await?;
    Ok(Ran {
        stdout: output.stdout.text(),
        stderr: output.stderr.text(),
        code: output.exit.ending.code(),
    })
}

/// Everything beneath a folder: its path, mode, owner, time of change, and content.
pub(crate) fn snapshot(folder: &Path) -> Vec<(PathBuf, [i64; 5], Vec<u8>)> {
    let (mut found, mut next) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = next.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mut content = Vec::new();
        if meta.is_dir() {
            next.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_file() {
            content = fs::read(&path).unwrap();
        }
        let numbers = [
            meta.mode().into(),
            meta.uid().into(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime_nsec(),
        ];
        found.push((path, numbers, content));
    }
    found.sort();
    found
}

/// Finds a program, and fails with the command that installs its Debian package if it is missing.
pub(crate) fn require(name: &str, package: &str) -> PathBuf {
    let found = ralph_orchestrator_supervisor::find_program(name, "/usr/bin:/bin", "/".as_ref());
    found.unwrap_or_else(|_| panic!("`{name}` is missing: apt-get install {package}"))
}
