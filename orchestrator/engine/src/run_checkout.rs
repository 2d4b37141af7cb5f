//! The checkout of a run, and what its validations have found out about it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_checkout::{Checkout, ContentDigests};
use tokio::task::spawn_blocking;

use super::hidden_files::HiddenTrials;

/// The checkout of a run, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct RunCheckout {
    pub(super) checkout: Arc<Checkout>,
    /// The digest of the inputs with which the setup ran before the first checks, whose products every checkout has.
    set_up: Arc<Mutex<Option<String>>>,
    pub(super) trials: HiddenTrials,
    /// What is still to be stored.
    contents: Arc<Mutex<Option<ContentDigests>>>,
    reading: Option<Arc<StopReading>>,
    /// The digest of the inputs for which all that the setup makes was in the workspace when the run began.
    pub(super) installed: Option<String>,
}

/// Stops who reads, once nobody needs it.
#[derive(Debug)]
struct StopReading(Arc<AtomicBool>);

impl Drop for StopReading {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl RunCheckout {
    pub(super) fn new(
        checkout: Checkout,
        set_up: Option<String>,
        installed: Option<String>,
    ) -> Self {
        Self {
            checkout: Arc::new(checkout),
            set_up: Arc::new(Mutex::new(set_up)),
            trials: HiddenTrials::default(),
            contents: Arc::default(),
            reading: None,
            installed,
        }
    }

    /// Reads what does not count as work, beside whatever is done meanwhile.
    pub(super) fn read_contents(&mut self, is_work: impl Fn(&Path) -> bool + Send + 'static) {
        let stop = Arc::new(AtomicBool::new(false));
        self.reading = Some(Arc::new(StopReading(Arc::clone(&stop))));
        let (checkout, unstored) = (Arc::clone(&self.checkout), Arc::clone(&self.contents));
        checkout.await_contents();
        spawn_blocking(move || {
            let contents = checkout.read_contents(&is_work, &stop);
            if !stop.load(Ordering::Relaxed) {
                *unstored.lock().unwrap_or_else(PoisonError::into_inner) = Some(contents.clone());
            }
            checkout.set_contents(contents);
        });
    }

    /// Returns what was read and is not stored.
    pub(super) fn take_contents(&self) -> Option<ContentDigests> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn set_up(&self) -> Option<String> {
        self.set_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record_setup(&self, inputs: Option<String>) {
        *self.set_up.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }
}
