//! What a program asks of its runs while they work.

use std::fmt;

use ralph_orchestrator_machine::Control;
use ralph_orchestrator_store::Layout;
use tokio::sync::oneshot;

use super::OrchestratorError;
use crate::control::{ControlTarget, deliver, own_origin};

/// What the journal calls the sender of controls.
const LIBRARY: &str = "library";
/// What messages call the command that begins another run.
const INVOCATION: &str = "ralph-orchestrator";

/// Guides a run from anywhere, also between two starts of it. Cheap to clone; does not keep the run alive.
///
/// Each method returns once the run has recorded the control. It returns true then, and false if the run has not
/// taken it in within 10 s: it is in its inbox, and takes effect as soon as it does.
#[derive(Clone)]
pub struct ControlHandle {
    layout: Layout,
}

impl fmt::Debug for ControlHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ControlHandle").finish_non_exhaustive()
    }
}

impl ControlHandle {
    pub(super) const fn new(layout: Layout) -> Self {
        Self { layout }
    }

    /// Puts guidance at the top of the next prompt, until an iteration that had it has ended well.
    ///
    /// # Errors
    /// The text is empty or too long, or the run is complete.
    pub async fn steer(&self, text: &str) -> Result<bool, OrchestratorError> {
        self.send(Control::Steer { text: text.to_owned() }).await
    }

    /// Answers the run's open question; guidance if there is none.
    ///
    /// # Errors
    /// As of [`steer`](Self::steer).
    pub async fn answer(&self, text: &str) -> Result<bool, OrchestratorError> {
        self.send(Control::Answer { text: text.to_owned() }).await
    }

    /// Starts no further iteration until [`resume`](Self::resume). The one that runs is ended if `now`, and begun
    /// again after the pause.
    ///
    /// # Errors
    /// The run is complete, or paused already.
    pub async fn pause(&self, now: bool) -> Result<bool, OrchestratorError> {
        self.send(Control::Pause { now }).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// The run is complete, or not paused.
    pub async fn resume(&self) -> Result<bool, OrchestratorError> {
        self.send(Control::Resume).await
    }

    /// Delivers on a thread of its own, since it waits for the run.
    async fn send(&self, control: Control) -> Result<bool, OrchestratorError> {
        let (outcome_tx, outcome) = oneshot::channel();
        let layout = self.layout.clone();
        let work = move || {
            let target = ControlTarget::from_layout(layout, INVOCATION.to_owned());
            let delivered = deliver(&target, own_origin(LIBRARY), &control);
            drop(outcome_tx.send(delivered.map(|outcome| !outcome.is_queued)));
        };
        let thread = std::thread::Builder::new().name("control".to_owned());
        thread.spawn(work).map_err(crate::error::CommandError::from)?;
        let died = || OrchestratorError::Run("the thread of the control ended".to_owned());
        Ok(outcome.await.map_err(|_| died())??)
    }
}
