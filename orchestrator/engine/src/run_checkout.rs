//! The checkout of a run, and what its validations have found out about it.

use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_checkout::Checkout;

use super::hidden_files::HiddenTrials;

/// The checkout of a run, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct RunCheckout {
    pub(super) checkout: Arc<Checkout>,
    /// The digest of the inputs with which the setup ran before the first checks, whose products every checkout has.
    set_up: Arc<Mutex<Option<String>>>,
    pub(super) trials: HiddenTrials,
    /// The digest of the inputs for which all that the setup makes was in the workspace when the run began.
    pub(super) installed: Option<String>,
}

impl RunCheckout {
    pub(super) fn new(
        checkout: Checkout,
        set_up: Option<String>,
        installed: Option<String>,
    ) -> Self {
        let (checkout, set_up) = (Arc::new(checkout), Arc::new(Mutex::new(set_up)));
        Self { checkout, set_up, trials: HiddenTrials::default(), installed }
    }

    pub(super) fn set_up(&self) -> Option<String> {
        self.set_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record_setup(&self, inputs: Option<String>) {
        *self.set_up.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }
}
