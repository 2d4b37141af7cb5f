//! Working in small steps.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use ralph_orchestrator_contract::{CancelReason, CancelSignal};

/// The outcome of work that may be ended early.
pub(crate) type Step<T> = Result<T, CancelReason>;

/// Bytes of work between two looks at the clock.
pub(crate) const STRIDE: usize = 1 << 20;

/// Breaks blocking work into steps, between which others run and the end may be called.
pub(crate) struct Pace<'a> {
    cancelled: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(cancel: &'a dyn CancelSignal) -> Self {
        Self { cancelled: cancel.cancelled() }
    }

    /// Lets others run once.
    ///
    /// # Errors
    /// Work has to end. It must not be called again then.
    pub(crate) async fn step(&mut self) -> Step<()> {
        let mut yielded = false;
        poll_fn(|context| {
            if let Poll::Ready(reason) = self.cancelled.as_mut().poll(context) {
                return Poll::Ready(Err(reason));
            }
            if yielded {
                return Poll::Ready(Ok(()));
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}
