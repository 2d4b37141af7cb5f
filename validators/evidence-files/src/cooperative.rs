//! Cooperative blocking work: it yields between steps, and can be cancelled there.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use ralph_orchestrator_contract::{CancelReason, CancelSignal};

/// The result of work, or why it was cancelled.
pub(crate) type Cancellable<T> = Result<T, CancelReason>;

/// Bytes of work between two yields.
pub(crate) const STRIDE: usize = 1 << 20;

/// Yields to other tasks between the steps of blocking work.
pub(crate) struct Yielder<'a> {
    cancelled: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
}

impl<'a> Yielder<'a> {
    pub(crate) fn new(cancel: &'a dyn CancelSignal) -> Self {
        Self { cancelled: cancel.cancelled() }
    }

    /// Lets other tasks run once.
    ///
    /// # Errors
    /// The work was cancelled. It must not be called again then.
    pub(crate) async fn yield_now(&mut self) -> Cancellable<()> {
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
