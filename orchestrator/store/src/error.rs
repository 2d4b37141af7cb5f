//! Errors of the state on disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::holder::Holder;

/// A problem with the state on disk.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another orchestrator holds the workspace.
    #[error("another orchestrator holds this workspace: {holder}")]
    Busy {
        /// Who.
        holder: Holder,
    },
    /// Processes of an agent of an earlier, killed orchestrator are still there.
    #[error("an agent of an earlier orchestrator has still not ended after {seconds} s")]
    AgentsLeft {
        /// How long it was waited.
        seconds: u64,
    },
    /// A run was started by an agent in its own workspace.
    #[error("this was started inside of run {run}, which holds this workspace: {holder}")]
    Nested {
        /// The run outside.
        run: String,
        /// Who holds the workspace.
        holder: Holder,
    },
    /// Processes that a killed start left cannot be ended.
    #[error("processes of a killed start cannot be ended: {}", names.join(", "))]
    OrphansLeft {
        /// Their names.
        names: Vec<String>,
    },
    /// Others may enter the state directory, and it is not this program's alone.
    #[error(
        "state directory {}: others may enter it (mode {mode:o}), and {problem}; name a folder of its \
         own in `state.dir`, or close this one with `chmod 700`", path.display()
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Why it is not closed at once.
        problem: String,
    },
    /// The state directory belongs to another workspace or configuration.
    #[error(
        "the state directory {} belongs to the run of {owner}, not to that of {asked}",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The configuration and the workspace that it belongs to.
        owner: String,
        /// Those that it was opened for.
        asked: String,
    },
    /// The configuration, which lies in the workspace, leads elsewhere than when its run began, which is
    /// not finished.
    #[error(
        "{} has an unfinished run {run}, whose state is in {}, for the workspace {}; its {key} leads \
         elsewhere now",
        configuration.display(), state.display(), workspace.display()
    )]
    Elsewhere {
        /// The configuration file.
        configuration: PathBuf,
        /// The run.
        run: String,
        /// Its state directory.
        state: PathBuf,
        /// Its workspace.
        workspace: PathBuf,
        /// The key that differs.
        key: &'static str,
    },
    /// The state was damaged or tampered with.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused an operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl StateError {
    pub(super) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    /// Returns a closure for `map_err` that adds the action and the path.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
