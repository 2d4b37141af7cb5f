//! The orchestrator's cancellation, which can be awaited repeatedly.

use std::future::Future;
use std::pin::Pin;

use ralph_orchestrator_contract::{CancelReason, CancelSignal};

/// Resolves once the activity has to end, and at once from then on.
pub(crate) struct Cancellation<'a> {
    signal: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
    fired: Option<CancelReason>,
}

impl<'a> Cancellation<'a> {
    pub(crate) fn new<S: CancelSignal + ?Sized>(signal: &'a S) -> Self {
        Self { signal: signal.cancelled(), fired: None }
    }

    /// Waits for it. May be dropped and called again.
    pub(crate) async fn wait(&mut self) {
        if self.fired.is_none() {
            self.fired = Some((&mut self.signal).await);
        }
    }

    /// Returns the reason, once it has fired.
    pub(crate) const fn reason(&self) -> Option<CancelReason> {
        self.fired
    }

    /// Returns the result of `work`; nothing if the end is asked for first.
    pub(crate) async fn race<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.wait() => None,
            done = work => Some(done),
        }
    }
}
