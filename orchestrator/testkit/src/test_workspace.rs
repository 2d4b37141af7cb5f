//! A workspace for one iteration or validation, and a run id by which its processes are found.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ralph_orchestrator_conformance::processes::marked;
use ralph_orchestrator_contract::{Budget, BuildContext, Iteration};
use tempfile::TempDir;

/// More than anything takes that runs in one.
const PATIENCE: Duration = Duration::from_secs(180);

/// A workspace, a private folder beside it, and a run id that no other test has.
#[derive(Debug)]
pub struct TestWorkspace {
    /// The folder of all its folders, in which a configuration would be.
    pub root: TempDir,
    /// The workspace, without links in its path.
    pub workspace: PathBuf,
    /// The run's id.
    pub run: String,
}

impl TestWorkspace {
    /// Creates a workspace whose folder has this name.
    ///
    /// # Panics
    /// If there is no room for its folders.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let workspace = real.join(name);
        std::fs::create_dir(&workspace).unwrap();
        std::fs::create_dir(real.join("scratch")).unwrap();
        Self { root, workspace, run: format!("test{}", real.display()) }
    }

    /// Returns what a factory is given.
    #[must_use]
    pub fn context(&self) -> BuildContext {
        BuildContext {
            config_dir: self.root.path().to_owned(),
            workspace: self.workspace.clone(),
            prompt_dir: self.workspace.clone(),
            path: path(),
        }
    }

    /// Returns an iteration with this prompt, and with `PATH` in its environment.
    #[must_use]
    pub fn task(&self, number: u64, prompt: &[u8]) -> Iteration {
        Iteration {
            run: self.run.clone(),
            number,
            prompt: prompt.to_vec(),
            workspace: self.workspace.clone(),
            env: BTreeMap::from([("PATH".to_owned(), path())]),
            budget: Budget::default(),
            scratch: self.root.path().join("scratch"),
        }
    }

    /// Awaits what runs here. It has to end in time, and to leave no process.
    ///
    /// # Panics
    /// If it does not.
    pub async fn finish<T>(&self, work: impl Future<Output = T>) -> T {
        let result = tokio::time::timeout(PATIENCE, work).await;
        assert_eq!(self.processes(), [""; 0], "processes are left");
        result.expect("it has an end")
    }

    /// Returns the command lines of all processes with the run's id in their environment.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        marked("RALPH_RUN_ID", &self.run)
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}
