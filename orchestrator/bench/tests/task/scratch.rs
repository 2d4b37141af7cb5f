//! Folders with tasks, for the tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_bench::task::{
    Capabilities, IsolationKind, LoadError, StageError, StagedEnvironment, Task, load,
};

/// A folder that is removed in the end.
pub(crate) struct Scratch {
    temp: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    /// Returns a Harbor task in the folder `task` with these lines in its `task.toml`.
    pub(crate) fn harbor(lines: &str) -> Self {
        let scratch = Self::new();
        scratch.write("task/task.toml", lines);
        scratch.write("task/instruction.md", "Do it.\n");
        scratch.write("task/environment/Dockerfile", "FROM debian:12\nWORKDIR /app\n");
        scratch.write("task/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n");
        scratch.write("task/solution/solve.sh", "true\n");
        scratch
    }

    /// Returns a Harbor task with this Dockerfile.
    pub(crate) fn dockerfile(text: &str) -> Self {
        let scratch = Self::harbor("");
        scratch.write("task/environment/Dockerfile", text);
        scratch
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn load(&self) -> Result<Vec<Task>, LoadError> {
        load(&[self.path("task")])
    }

    pub(crate) fn task(&self) -> Task {
        let mut tasks = self.load().unwrap();
        assert_eq!(tasks.len(), 1);
        tasks.remove(0)
    }

    /// Returns what is wrong with the task.
    pub(crate) fn refusal(&self) -> String {
        let error = self.load().unwrap_err().to_string();
        error
            .replace(&format!("{}/", self.path("").display().to_string().trim_end_matches('/')), "")
    }

    pub(crate) fn obstacles(&self, capabilities: &Capabilities) -> Vec<String> {
        let prefix = format!("{}/task/", self.path("").display().to_string().trim_end_matches('/'));
        let found = self.task().find_obstacles(capabilities);
        found.iter().map(|obstacle| obstacle.to_string().replace(&prefix, "")).collect()
    }

    pub(crate) fn stage(&self) -> Result<StagedEnvironment, StageError> {
        self.task().stage(&self.path("staged"), &BTreeMap::new())
    }
}

pub(crate) fn namespace() -> Capabilities {
    Capabilities::new(IsolationKind::Namespace)
}

/// Returns the names below a folder, sorted; folders end in `/`.
pub(crate) fn list(folder: &Path) -> Vec<String> {
    fn add(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in folder.read_dir().unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                found.push(format!("{name}/"));
                add(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    add(folder, "", &mut found);
    found.sort();
    found
}
