//! One step of the machine.

use super::baseline;
use super::boundary;
use super::change;
use super::input::{Effect, Input, Now};
use super::limits::StopReason;
use super::record::Record;
use super::running;
use super::state::{Latch, State};
use ralph_orchestrator_contract::{CancelReason, ClaimKind};

/// The new state after `input`, and what to do, in this order. The new state is always the old one
/// with every appended record applied.
#[must_use]
pub fn step(state: State, input: Input, now: Now) -> (State, Vec<Effect>) {
    let mut turn = Turn { state, effects: Vec::new(), now };
    match input {
        Input::Started(options) => boundary::started(&mut turn, options.fresh),
        Input::ClaimsFound(claims) => boundary::claims_found(&mut turn, claims),
        Input::WorkspaceMade(workspace) if turn.state.started.is_some() => {
            turn.record(Record::WorkspaceMade { workspace });
        }
        Input::WorkspaceMade(_) => {}
        Input::Looked(look) => boundary::looked(&mut turn, look),
        Input::NotLooked => boundary::not_looked(&mut turn),
        Input::BaselineChecked(check) => baseline::checked(&mut turn, check),
        Input::Survived(message) => boundary::survived(&mut turn, message),
        Input::Validated(validation) => boundary::validated(&mut turn, validation),
        Input::Rested => boundary::rested(&mut turn),
        Input::Prepared { start, prompt, given } => {
            boundary::prepared(&mut turn, start, prompt, given);
        }
        Input::ClaimSeen(claim) if turn.state.current.is_some() => turn.claim(claim),
        Input::Used(usage) => running::used(&mut turn, usage),
        Input::ContextSeen(context) => running::context(&mut turn, context),
        Input::ModelSeen(model) => running::model(&mut turn, model),
        Input::Noted(text) => running::noted(&mut turn, &text),
        Input::Judged { accepted, reasons } => running::judged(&mut turn, accepted, reasons),
        Input::ArtefactsFound(paths) => boundary::artefacts_found(&mut turn, paths),
        Input::AgentOut(reason) => change::out(&mut turn, reason),
        Input::Ended(ended) => running::ended(&mut turn, ended),
        Input::Timer(timer) => running::timer(&mut turn, timer),
        Input::Signal => running::signal(&mut turn),
        Input::Warn(message) if turn.state.started.is_some() => {
            turn.record(Record::Warning { message });
        }
        Input::ClaimSeen(_) | Input::Warn(_) => {}
    }
    (turn.state, turn.effects)
}

/// A step in the making.
pub(super) struct Turn {
    pub(super) state: State,
    pub(super) effects: Vec<Effect>,
    pub(super) now: Now,
}

impl Turn {
    /// States a fact: the only way to change the state.
    pub(super) fn record(&mut self, record: Record) {
        self.state.apply(&record);
        self.effects.push(Effect::Append(record));
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// The runtime, which never goes back, whatever the driver measures.
    pub(super) fn runtime_ms(&self) -> u64 {
        self.now.runtime_ms.max(self.state.runtime_ms)
    }

    /// Records a claim, unless it is one that has stood there before.
    pub(super) fn claim(&mut self, claim: ralph_orchestrator_contract::Claim) {
        let stood = claim.source == ralph_orchestrator_contract::ClaimSource::State
            && self.state.standing.get(&claim.detector) == Some(&claim.kind);
        // Told twice, as by a tool call that is made again, it is still one claim.
        let told = match claim.kind {
            ClaimKind::Complete => {
                let iteration = self.state.iterations;
                self.state.latch == Latch::Claimed { claim: claim.clone(), iteration }
            }
            ClaimKind::NeedsHuman => self.state.human.as_ref() == Some(&claim),
        };
        if stood || told || self.state.completion().is_some() || self.state.started.is_none() {
            return;
        }
        let iteration = self.state.iterations;
        self.record(Record::Claimed { iteration, claim });
        self.effect(Effect::Latch);
    }

    /// Ends an activity early, once.
    pub(super) fn cancel(&mut self, reason: CancelReason) {
        self.record(Record::Cancelling { reason });
        if self.state.current.is_some() {
            self.effect(Effect::Cancel(reason));
        }
    }

    /// Ends the run, for now or for good.
    pub(super) fn finish(&mut self, reason: StopReason, message: String) {
        if reason != StopReason::Completed {
            let runtime_ms = self.runtime_ms();
            self.record(Record::Stopped { reason, message: message.clone(), runtime_ms });
        }
        self.effect(Effect::Latch);
        self.effect(Effect::Finish { reason, message });
    }
}
