//! For a plugin's own tests: a workspace, a sink, and the arguments of the traits' methods.
//!
//! ```
//! # use ralph_orchestrator_plugin_sdk::{CompletionDetector, DetectorInput, Findings, async_trait, testing};
//! # struct Mine;
//! # #[async_trait]
//! # impl CompletionDetector for Mine {
//! #     fn name(&self) -> &str { "mine" }
//! #     fn instructions(&self) -> String { String::new() }
//! #     async fn inspect(&self, _: DetectorInput<'_>) -> Findings { Findings::default() }
//! # }
//! # async fn example() {
//! let workspace = testing::Workspace::new();
//! workspace.write("notes.txt", "nothing is claimed here");
//! assert!(Mine.inspect(workspace.input(Some("I am done."))).await.claims.is_empty());
//! # }
//! ```
#![allow(clippy::expect_used, reason = "a test fails so")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ralph_orchestrator_contract::{
    Budget, CancelReason, CancelSignal, Claim, DetectorInput, Event, EventSink, Iteration,
    NeverCancelled, ValidationContext, async_trait,
};

/// The `PATH` of the processes of an agent or validator that is tested.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Keeps the events of an agent.
#[derive(Debug, Default)]
pub struct Sink {
    events: Mutex<Vec<Event>>,
    cancelled: Option<CancelReason>,
}

impl Sink {
    /// Creates a sink that never cancels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a sink that is cancelled from the beginning.
    #[must_use]
    pub fn cancelled(reason: CancelReason) -> Self {
        Self { cancelled: Some(reason), ..Self::default() }
    }

    /// Returns the events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl CancelSignal for Sink {
    async fn cancelled(&self) -> CancelReason {
        match self.cancelled {
            Some(reason) => reason,
            None => NeverCancelled.cancelled().await,
        }
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn emit(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Returns a task in this workspace, which is its private folder too, without any limit.
#[must_use]
pub fn task(workspace: &Path) -> Iteration {
    Iteration {
        run: "run".to_owned(),
        number: 1,
        prompt: b"Do it.".to_vec(),
        workspace: workspace.to_owned(),
        env: env(),
        budget: Budget::default(),
        scratch: workspace.to_owned(),
    }
}

/// Returns a claim that the task is complete, for a validator.
#[must_use]
pub fn claim() -> Claim {
    Claim { detector: "promise".to_owned(), ..Claim::complete("The task is complete.") }
}

fn env() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), PATH.to_owned())])
}

/// A folder of its own to work in, which is deleted when it is dropped.
#[derive(Debug)]
pub struct Workspace {
    folder: PathBuf,
    claim: Claim,
    env: BTreeMap<String, String>,
    written_in: BTreeMap<String, u64>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// Creates an empty one among the system's temporary files.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("ralph-plugin-test-{}-{number}", process::id());
            let folder = std::env::temp_dir().join(name);
            match fs::create_dir(&folder) {
                // Left by a process of the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                created => {
                    created.expect("there is room for a folder");
                    break folder;
                }
            }
        };
        let folder = folder.canonicalize().expect("the folder is there");
        Self { folder, claim: claim(), env: env(), written_in: BTreeMap::new() }
    }

    /// Returns its path: absolute, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes a file, with the folders above it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: &str) {
        let path = self.folder.join(name);
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).expect("there is room for a folder");
        fs::write(path, content).expect("there is room for a file");
    }

    /// Reads a file; `None` if there is none.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Returns a task for an agent, see [`task`].
    #[must_use]
    pub fn task(&self) -> Iteration {
        task(&self.folder)
    }

    /// Returns the input of a detector, after an iteration with this final message, or without one.
    #[must_use]
    pub fn input<'a>(&'a self, final_text: Option<&'a str>) -> DetectorInput<'a> {
        let given = final_text.map(|_| "Do it.");
        let workspace = self.path();
        DetectorInput { workspace, prompt_path: None, prompt: None, final_text, given }
    }

    /// Returns the context of a validation after the first iteration, in which the work was changed.
    #[must_use]
    pub fn context(&self) -> ValidationContext<'_> {
        ValidationContext {
            checkout: &[],
            output: None,
            run: "run",
            iteration: 1,
            claim: &self.claim,
            workspace: &self.folder,
            tree_since: 1,
            written_in: &self.written_in,
            evidence_listed: true,
            protected_changes: &[],
            env: &self.env,
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be deleted is left to the system.
        drop(fs::remove_dir_all(&self.folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_its_own_and_is_deleted() {
        let (one, other) = (Workspace::new(), Workspace::new());
        one.write("a/b.txt", "text");
        assert_eq!(one.read("a/b.txt").as_deref(), Some("text"));
        assert_eq!(other.read("a/b.txt"), None);
        assert_eq!(one.task().workspace, one.context().workspace);
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }
}
