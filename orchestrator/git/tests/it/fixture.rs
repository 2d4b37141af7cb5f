//! A repository in a temporary folder, and everything that must not change in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use ralph_orchestrator_git::{Repository, RunGit, RunRef, SystemGit};
use tempfile::TempDir;

/// Something that happens in a repository.
pub(crate) type Step = fn(&Fixture);

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) workspace: PathBuf,
}

/// Everything of the user's that can be seen of a repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UserState {
    pub(crate) refs: String,
    pub(crate) head: Vec<u8>,
    pub(crate) logs: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) index: Option<Vec<u8>>,
    pub(crate) config: Vec<u8>,
    pub(crate) files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
}

impl Fixture {
    /// An empty repository on the branch `main`, with an identity.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&workspace).unwrap();
        let fixture = Self { folder, workspace };
        fixture.git(&["init", "-q", "-b", "main"]);
        fixture.git(&["config", "user.name", "Ada User"]);
        fixture.git(&["config", "user.email", "ada@example.org"]);
        fixture
    }

    /// A repository with one commit.
    pub(crate) fn committed() -> Self {
        let fixture = Self::new();
        fixture.write("a.txt", "one\n");
        fixture.write("src/lib.rs", "fn main() {}\n");
        fixture.write(".gitignore", "ignored/\n*.log\n");
        fixture.git(&["add", "."]);
        fixture.git(&["commit", "-qm", "first"]);
        fixture
    }

    pub(crate) fn environment(&self) -> BTreeMap<OsString, OsString> {
        [
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("HOME", self.folder.path().into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_CONFIG_SYSTEM", "/dev/null".into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value))
        .collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn write_script(&self, path: &Path, script: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn try_git(&self, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(&self.workspace)
            .env_clear()
            .envs(self.environment())
            .env("GIT_EDITOR", "true")
            .output()
            .unwrap()
    }

    /// Runs git as the user would, and returns what it prints.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.try_git(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(crate) fn private(&self) -> PathBuf {
        self.folder.path().join("state/git")
    }

    pub(crate) fn open_with(
        &self,
        git: Arc<dyn RunGit>,
    ) -> ralph_orchestrator_git::Result<Repository> {
        Repository::discover_with(&self.workspace, &self.private(), git, self.environment())
    }

    pub(crate) fn open(&self) -> Repository {
        self.open_with(Arc::new(SystemGit::find().unwrap())).unwrap()
    }

    /// Opens the repository at a run's start.
    pub(crate) fn begin(&self, iteration: u64) -> Repository {
        let repository = self.open();
        repository.trust_configuration().unwrap();
        repository.begin_iteration(iteration).unwrap();
        repository
    }

    /// Returns all objects of the repository, with their kinds and sizes.
    pub(crate) fn list_objects(&self) -> BTreeSet<String> {
        let objects = self.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
        objects.lines().map(str::to_owned).collect()
    }

    /// Returns all of the user's: refs but the orchestrator's, reflogs, index, configuration, files.
    pub(crate) fn user_state(&self) -> UserState {
        let git_dir = self.path(".git");
        let refs = self.git(&["for-each-ref"]);
        let refs = refs.lines().filter(|line| !line.contains("refs/ralph/")).collect::<Vec<_>>();
        let mut logs = BTreeMap::new();
        for (path, (_, content)) in list_files(&git_dir.join("logs")) {
            logs.insert(path, content);
        }
        let mut files = list_files(&self.workspace);
        files.retain(|path, _| !path.starts_with(".git"));
        UserState {
            refs: refs.join("\n"),
            head: fs::read(git_dir.join("HEAD")).unwrap(),
            logs,
            index: fs::read(git_dir.join("index")).ok(),
            config: fs::read(git_dir.join("config")).unwrap(),
            files,
        }
    }
}

/// Returns mode and content of each file below a folder; a link's content is its target.
pub(crate) fn list_files(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if metadata.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            files
                .insert(path.strip_prefix(root).unwrap().to_path_buf(), (metadata.mode(), content));
        }
    }
    files
}

pub(crate) fn run() -> RunRef {
    RunRef::new("0198-run").unwrap()
}

pub(crate) fn bytes(name: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name))
}
