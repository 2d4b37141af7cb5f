//! What the engine needs to know of the processes of agents, which others start.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::Survivor;

/// Inspects and ends the processes of an iteration. The engine itself starts none.
///
/// The processes of an iteration are those that were started with its `RALPH_RUN_ID` and
/// `RALPH_ITERATION` in their environment, and their descendants.
#[async_trait]
pub trait Processes: Send + Sync {
    /// Returns now in clock ticks since the machine was booted, as [`Survivor::started`].
    fn clock_ticks(&self) -> u64;

    /// Returns the processes of an iteration that are there now. Blocks while all processes are listed.
    fn of_iteration(&self, run: &str, iteration: u64) -> Vec<Survivor>;

    /// Kills the processes of an iteration, and returns those that lived just now, and those of
    /// `survivors` that live. Blocks while all processes are listed.
    fn end(&self, run: &str, iteration: u64, survivors: Vec<Survivor>) -> Vec<Survivor>;

    /// Returns whether the processes of an iteration use the processor during `window`, or have a connection of
    /// the network open. Blocks for the window.
    fn are_busy(&self, run: &str, iteration: u64, window: Duration) -> bool;

    /// Tries whether a process can be shown this folder with layers over it that are kept in `storage`, an existing folder.
    ///
    /// # Errors
    /// Why not.
    async fn check_layers(&self, storage: &Path, folder: &Path) -> Result<(), String>;
}

/// For agents that start no processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProcesses;

#[async_trait]
impl Processes for NoProcesses {
    fn clock_ticks(&self) -> u64 {
        0
    }

    fn of_iteration(&self, _run: &str, _iteration: u64) -> Vec<Survivor> {
        Vec::new()
    }

    fn end(&self, _run: &str, _iteration: u64, survivors: Vec<Survivor>) -> Vec<Survivor> {
        survivors
    }

    fn are_busy(&self, _run: &str, _iteration: u64, _window: Duration) -> bool {
        false
    }

    async fn check_layers(&self, _storage: &Path, _folder: &Path) -> Result<(), String> {
        Err("no process is started here".to_owned())
    }
}
