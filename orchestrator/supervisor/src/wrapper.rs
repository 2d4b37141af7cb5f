//! Starting processes elsewhere, such as in a container, by a program of this machine.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::exit::Ending;
use crate::spec::Spec;

/// What a [`Wrapper`] returns.
pub type WrapperFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts processes elsewhere. The supervised process is then the program that does so, such as the client of a
/// container engine, and what it started is no part of its tree: the wrapper ends that.
pub trait Wrapper: fmt::Debug + Send + Sync {
    /// Returns what to start on this machine, so that the process of `spec` runs elsewhere. Called at each start.
    ///
    /// # Errors
    /// It cannot be started there. Nothing of it is left, and [`release`](Self::release) is not called.
    fn wrap(&self, spec: Spec) -> WrapperFuture<'_, io::Result<Spec>>;

    /// Stops the process elsewhere, without waiting. Called before the supervised process is stopped, which need not reach
    /// it; [`release`](Self::release) follows in any case.
    fn stop(&self) {}

    /// Ends what the process left elsewhere, once for each start. `ending` is that of the supervised process; none if
    /// it did not start, or nobody waited for its end. The exit is reported only afterwards.
    fn release(&self, ending: Option<Ending>) -> WrapperFuture<'_, ()>;
}

/// A start by a wrapper, which is released once.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    wrapper: Option<Arc<dyn Wrapper>>,
    releasing: Option<JoinHandle<()>>,
}

impl Lease {
    pub(crate) fn new(wrapper: Arc<dyn Wrapper>) -> Self {
        Self { wrapper: Some(wrapper), releasing: None }
    }

    /// Stops what was started.
    pub(crate) fn stop(&self) {
        if let Some(wrapper) = &self.wrapper {
            wrapper.stop();
        }
    }

    /// Releases it, and waits for that. Cancel safe: what has begun goes on, and the next call waits for it.
    pub(crate) async fn release(&mut self, ending: Ending) {
        if let Some(wrapper) = self.wrapper.take() {
            let release = async move { wrapper.release(Some(ending)).await };
            self.releasing = Some(tokio::spawn(release));
        }
        if let Some(releasing) = &mut self.releasing {
            drop(releasing.await);
            self.releasing = None;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(wrapper) = self.wrapper.take() else { return };
        // Without a runtime the program ends, and its wrappers are not waited for.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { wrapper.release(None).await });
        }
    }
}
