//! Work that would hold up the event loop, on threads of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::EngineError;

/// Runs blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| EngineError::Internal(error.to_string()))
}

/// Runs blocking work that returns soon after its flag is set, which happens when `enough` resolves.
pub(super) async fn cancellable<T: Send + 'static>(
    enough: impl Future<Output = ()>,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, EngineError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancelled);
    let mut work = std::pin::pin!(blocking(move || work(flag)));
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = enough => {}
    }
    cancelled.store(true, Ordering::Relaxed);
    work.await
}
