//! How an agent or a validator is cancelled.

use async_trait::async_trait;
use ralph_orchestrator_contract::{CancelReason, CancelSignal};
use tokio::sync::watch;

/// Receives the request to cancel an activity, with its reason.
#[derive(Clone)]
pub(super) struct CancelToken(watch::Receiver<Option<CancelReason>>);

impl CancelToken {
    pub(super) const fn new(reason: watch::Receiver<Option<CancelReason>>) -> Self {
        Self(reason)
    }

    /// Returns whether it was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.borrow().is_some()
    }
}

#[async_trait]
impl CancelSignal for CancelToken {
    async fn cancelled(&self) -> CancelReason {
        let mut reason = self.0.clone();
        let reason = reason.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        match reason {
            Some(reason) => reason,
            // The sender is gone: it is never cancelled.
            None => std::future::pending().await,
        }
    }
}
