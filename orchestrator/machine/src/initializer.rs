//! The initializer: the role that prepares the workspace, before any other works.

use super::limits::RunLimits;
use super::record::Record;
use super::state::State;
use super::stop::{Stop, StopReason};
use super::transition::Transition;

impl State {
    /// Whether the next iteration is the initializer's.
    #[must_use]
    pub const fn is_initializing(&self) -> bool {
        self.limits.max_initializer_attempts.is_some() && !self.initializer.is_done
    }

    /// Whether the running iteration is the initializer's: what it claims says nothing of the task.
    #[must_use]
    pub fn runs_initializer(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_initializer)
    }
}

/// Records whether the products are there, given what is missing.
pub(super) fn products_checked(next: &mut Transition, missing: Vec<String>) {
    if !next.state.is_initializing() {
        return;
    }
    let iteration = next.state.iterations;
    if missing.is_empty() {
        next.record(Record::Initialized { iteration });
    } else if iteration > 0 {
        next.record(Record::ProductsMissing { iteration, missing });
    }
}

/// Whether nothing is left to do in a run of the initializer alone.
pub(super) const fn ends_run(state: &State) -> bool {
    state.limits.ends_initialized && state.initializer.is_done
}

/// Returns the stop if the initializer may not try again.
pub(super) fn attempts_used(state: &State) -> Option<Stop> {
    let RunLimits { max_initializer_attempts: max, .. } = &state.limits;
    let max = max.filter(|max| state.is_initializing() && state.initializer.attempts >= *max)?;
    let missing = state.initializer.missing.join("; ");
    let text = match max {
        1 => format!("the only attempt of the initializer left products missing: {missing}"),
        max => format!("{max} attempts of the initializer left products missing: {missing}"),
    };
    Some(Stop::new(StopReason::InitFailed, text))
}
