//! What runs a setup: the command that prepares the workspace before each iteration, or a checkout before its checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ralph_orchestrator_contract::{CancelSignal, LayeredFolder};

/// Runs a command that prepares the place of others. The engine itself starts no process.
#[async_trait]
pub trait WorkspaceSetup: Send + Sync {
    /// Returns the command as one would type it.
    fn command(&self) -> String;

    /// Returns the file of the workspace that it runs, as long as that does not exist.
    fn missing_file(&self) -> Option<PathBuf>;

    /// Runs it, until `cancel`. Its processes have ended then.
    ///
    /// # Errors
    /// Why it failed, for the agent.
    async fn run(&self, context: SetupContext<'_>, cancel: &dyn CancelSignal)
    -> Result<(), String>;
}

/// What the setup is run with.
#[derive(Clone, Copy, Debug)]
pub struct SetupContext<'a> {
    /// The run.
    pub run: &'a str,
    /// The iteration that it is for.
    pub iteration: u64,
    /// Where it runs.
    pub workspace: &'a Path,
    /// What it sees over that.
    pub checkout: &'a [LayeredFolder],
    /// Its environment.
    pub env: &'a BTreeMap<String, String>,
}
