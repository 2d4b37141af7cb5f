//! The one way in which a step changes the state and orders effects.

use ralph_orchestrator_contract::{CancelReason, Claim, ClaimKind, ClaimSource};

use super::input::{Effect, Now};
use super::record::Record;
use super::state::{Latch, State};
use super::stop::{Stop, StopReason};

/// A step in progress.
pub(super) struct Transition {
    pub(super) state: State,
    pub(super) effects: Vec<Effect>,
    pub(super) now: Now,
}

impl Transition {
    /// Applies a record and orders that it is appended: the only way to change the state.
    pub(super) fn record(&mut self, record: Record) {
        self.state.apply(&record);
        self.effects.push(Effect::Append(record));
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn warn(&mut self, messages: impl IntoIterator<Item = String>) {
        for message in messages {
            self.record(Record::Warning { message });
        }
    }

    /// Returns the runtime, which never falls, whatever the driver measures.
    pub(super) fn runtime_ms(&self) -> u64 {
        self.now.runtime_ms.max(self.state.budget.runtime_ms)
    }

    /// Records a claim, unless it is already known or the run is complete.
    pub(super) fn claim(&mut self, claim: Claim) {
        let state = &self.state;
        let is_standing = claim.source == ClaimSource::State
            && state.claims.standing.get(&claim.detector) == Some(&claim.kind);
        let iteration = state.iterations;
        // A repeated claim, as by a tool call that is made again, is still one claim.
        let is_pending = match claim.kind {
            ClaimKind::Complete => {
                state.latch == Latch::Claimed { claim: claim.clone(), iteration }
            }
            ClaimKind::NeedsHuman => state.claims.human_request.as_ref() == Some(&claim),
        };
        if is_standing || is_pending || state.completion().is_some() || state.started.is_none() {
            return;
        }
        self.record(Record::Claimed { iteration, claim });
        self.effect(Effect::Latch);
    }

    /// Records that whatever is going on is stopped early, and cancels the agent if one is running.
    pub(super) fn cancel(&mut self, reason: CancelReason) {
        self.record(Record::Cancelling { reason, is_hangup: false });
        if self.state.running.is_some() {
            self.effect(Effect::Cancel(reason));
        }
    }

    /// Ends the run, for good or until it is resumed.
    pub(super) fn finish(&mut self, reason: StopReason, message: impl Into<String>) {
        let message = message.into();
        if reason != StopReason::Completed {
            let runtime_ms = self.runtime_ms();
            self.record(Record::Stopped { reason, message: message.clone(), runtime_ms });
        }
        self.effect(Effect::Latch);
        self.effect(Effect::Finish { reason, message });
    }

    pub(super) fn finish_with(&mut self, stop: Stop) {
        self.finish(stop.reason, stop.message);
    }

    /// Cancels the running iteration, unless that is done already or none is running.
    pub(super) fn cancel_running(&mut self, reason: CancelReason) {
        if self.state.running.as_ref().is_some_and(|running| running.cancelling.is_none()) {
            self.cancel(reason);
        }
    }
}
