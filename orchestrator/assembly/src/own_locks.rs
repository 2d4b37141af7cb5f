//! Locks that processes of an earlier run in this program still hold.

use std::future::Future;
use std::time::{Duration, Instant};

use ralph_orchestrator_engine::EngineError;
use ralph_orchestrator_store::StateError;

/// How long the processes of a run may take to end, and with them its locks, when the next one begins.
const WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// Tries again for as long as processes of this program's own, which are ending, hold a lock.
pub async fn wait_for_own_locks<T, F>(open: impl Fn() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let deadline = Instant::now() + WAIT;
    loop {
        match open().await {
            Err(EngineError::State(StateError::Busy { holder }))
                if holder.pid == std::process::id() && Instant::now() < deadline =>
            {
                tokio::time::sleep(POLL).await;
            }
            opened => return opened,
        }
    }
}
