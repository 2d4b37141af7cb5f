//! Validation within a session: a preview of the verdict if the agent ended now.
//!
//! The answer is recorded and decides nothing: it never touches the claim, the count of rejections, or
//! what counts as observed.

use std::pin::Pin;

use ralph_orchestrator_contract::{CancelReason, ValidationPreview};
use ralph_orchestrator_machine::Validation;
use ralph_orchestrator_workspace::TreeHasher;
use tokio::sync::{oneshot, watch};

use super::error::EngineError;
use super::execution::GRACE;

/// The hasher that was lent to a validation, and its result; `None` if it was cancelled.
pub(super) type ValidationOutcome = (Option<TreeHasher>, Result<Option<Validation>, EngineError>);

/// A validation that the agent waits for.
pub(super) struct PendingValidation {
    pub(super) work: Pin<Box<dyn Future<Output = ValidationOutcome> + Send>>,
    pub(super) cancel: watch::Sender<Option<CancelReason>>,
    pub(super) answer: oneshot::Sender<ValidationPreview>,
}

impl PendingValidation {
    /// Cancels it.
    pub(super) fn cancel(&self, reason: CancelReason) {
        self.cancel.send_replace(Some(reason));
    }

    /// Cancels it and waits until no process of a validator is left.
    pub(super) async fn end(self) -> Option<TreeHasher> {
        self.cancel(CancelReason::Signal);
        tokio::time::timeout(GRACE, self.work).await.ok().and_then(|(hasher, _)| hasher)
    }
}

/// Resolves when the pending validation ends; never without one.
pub(super) async fn next_validation(pending: Option<&mut PendingValidation>) -> ValidationOutcome {
    let Some(pending) = pending else { return std::future::pending().await };
    tokio::select! {
        biased;
        done = &mut pending.work => return done,
        // The agent does not wait for the answer any more.
        () = pending.answer.closed() => {}
    }
    pending.cancel.send_replace(Some(CancelReason::Signal));
    (&mut pending.work).await
}
