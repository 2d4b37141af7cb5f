//! The runtime of a command that waits for things.

use std::future::Future;

use ralph_orchestrator_assembly::error::CommandError;

/// Runs a command that waits for things.
pub fn block_on<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
