//! A temporary workspace to play with.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use ralph_orchestrator_workspace::{TreeHasher, TreeState};

pub(crate) struct Workspace {
    temp: tempfile::TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("ws")).unwrap();
        Self { temp }
    }

    pub(crate) fn with_git() -> Self {
        let workspace = Self::new();
        workspace.git(&["init", "-q", "-b", "main"]);
        workspace
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("ws")
    }

    /// A path beside the workspace.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root().join(OsStr::from_bytes(path.as_ref()))
    }

    pub(crate) fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn remove(&self, path: impl AsRef<[u8]>) -> &Self {
        std::fs::remove_file(self.path(path)).unwrap();
        self
    }

    pub(crate) fn mode(&self, path: &str, mode: u32) -> &Self {
        std::fs::set_permissions(self.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
        self
    }

    pub(crate) fn fifo(&self, path: &str) -> &Self {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, self.path(path), mode).unwrap();
        self
    }

    /// Ends a chain of edits.
    pub(crate) fn end(&self) {}

    pub(crate) fn git(&self, args: &[&str]) -> Output {
        git(&self.root(), args)
    }

    pub(crate) fn hasher(&self) -> TreeHasher {
        TreeHasher::new(self.root(), Vec::new())
    }

    /// The state as a hasher without memory sees it.
    pub(crate) fn state(&self) -> TreeState {
        let state = self.hasher().digest().unwrap();
        assert!(state.stable, "{state:?}");
        state
    }

    pub(crate) fn digest(&self) -> String {
        self.state().digest.to_string()
    }

    /// Whether an edit changes the digest.
    pub(crate) fn changes(&self, edit: impl FnOnce(&Self)) -> bool {
        let before = self.digest();
        edit(self);
        self.digest() != before
    }

    /// What counts, as text.
    pub(crate) fn paths(&self) -> Vec<String> {
        let snapshot = self.hasher().snapshot().unwrap();
        let paths = snapshot.paths().collect::<Vec<_>>();
        paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }
}

#[allow(clippy::disallowed_methods)]
pub(crate) fn git(folder: &Path, args: &[&str]) -> Output {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.parent().unwrap())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    output
}
