//! What the engine needs of version control, which others implement.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Finds the repository of a workspace. The engine itself starts no process.
pub trait VersionControl: Send + Sync {
    /// Opens the repository of a run's workspace. Blocks.
    ///
    /// # Errors
    /// Why there is none that can be used, for people.
    fn open(&self, location: RepositoryLocation) -> Result<Arc<dyn RunRepository>, String>;

    /// Returns the first lines of the messages of the last commits, the newest first. Blocks, and writes
    /// nothing.
    ///
    /// # Errors
    /// Why there are none, for people.
    fn recent_subjects(
        &self,
        location: RepositoryLocation,
        most: u32,
    ) -> Result<Vec<String>, String>;
}

/// Where a run and its repository are.
#[derive(Clone, Debug)]
pub struct RepositoryLocation {
    /// The run.
    pub run: String,
    /// Its workspace.
    pub workspace: PathBuf,
    /// A folder of the run's own, outside of the workspace.
    pub folder: PathBuf,
    /// The run begins; otherwise it is resumed.
    pub is_new: bool,
    /// The folder of a run whose agents have worked there before it: what that began with is trusted.
    pub trusted: Option<PathBuf>,
    /// What each process holds open, so that a later start waits for it.
    pub guard: Arc<File>,
    /// While it is true, processes are ended with all that they started, and none is started.
    pub cancelled: watch::Receiver<bool>,
    /// Globs of what validators protect.
    pub protects: Vec<String>,
    /// How long a program that signs a commit may take.
    pub signing_timeout: Duration,
}

/// Stores the work of a run. All functions block, can be repeated after a crash, and then do nothing twice.
pub trait RunRepository: Send + Sync {
    /// Records what is not committed before an iteration's agent starts, and what git ignores: no commit takes that.
    ///
    /// # Errors
    /// Why it could not be recorded, for people.
    fn begin_iteration(&self, iteration: u64) -> Result<(), String>;

    /// Records what git ignores before an iteration's agent starts: no checkpoint takes that.
    ///
    /// # Errors
    /// Why it could not be recorded, for people.
    fn record_ignored(&self) -> Result<(), String>;

    /// Stores the files of the workspace, and changes nothing else.
    ///
    /// # Errors
    /// Why they could not be stored, for people.
    fn checkpoint(&self, iteration: u64) -> Result<StoredWork, String>;

    /// Commits what the iteration changed on the current branch. Runs hooks.
    ///
    /// # Errors
    /// Why there is no commit, for people.
    fn commit(&self, iteration: u64, message: &str) -> Result<StoredWork, String>;
}

/// What was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredWork {
    /// The id of the commit; `None` if there was nothing to store.
    pub id: Option<String>,
    /// Files that were not stored, and why.
    pub skipped: Vec<String>,
    /// What else a person is to know of it.
    pub problems: Vec<String>,
}

const NONE: &str = "this program was built without version control";

/// For engines without version control.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVersionControl;

impl VersionControl for NoVersionControl {
    fn open(&self, _location: RepositoryLocation) -> Result<Arc<dyn RunRepository>, String> {
        Err(NONE.to_owned())
    }

    fn recent_subjects(
        &self,
        _location: RepositoryLocation,
        _most: u32,
    ) -> Result<Vec<String>, String> {
        Err(NONE.to_owned())
    }
}
