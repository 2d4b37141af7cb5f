//! A pause of the run: no iteration begins until it ends.

use ralph_orchestrator_contract::CancelReason;

use super::between_iterations::{Delay, continue_after, finish_interrupted};
use super::input::Effect;
use super::outcome::IterationOutcome;
use super::record::Record;
use super::state::State;
use super::transition::Transition;

impl State {
    /// Whether the last iteration was cancelled for a pause: it is begun again.
    #[must_use]
    pub const fn was_cancelled_by_pause(&self) -> bool {
        matches!(
            self.last_outcome,
            Some(IterationOutcome::StoppedEarly { reason: CancelReason::Pause })
        )
    }
}

/// Orders to wait for the end of the pause. That it is in effect is recorded once in each start.
pub(super) fn begin(next: &mut Transition) {
    if next.state.controls.pause.as_ref().is_some_and(|pause| !pause.in_effect) {
        let runtime_ms = next.runtime_ms();
        next.record(Record::Paused { runtime_ms });
    }
    next.effect(Effect::Hold);
}

/// Resumes where the pause began, or stops the run.
pub(super) fn finished(next: &mut Transition) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    continue_after(next, Delay::Over);
}
