//! Which commands of the user are due before an effect, and what follows from their end.

use serde_json::json;

use super::between_iterations::{finish_interrupted, ignores_verdicts, wait_finished};
use super::hook::{DueHook, HookEnd, HookEvent};
use super::input::Effect;
use super::record::Record;
use super::state::State;
use super::stop::StopReason;
use super::transition::Transition;

impl State {
    /// Returns the event whose commands have to run before this effect is performed.
    #[must_use]
    pub fn due_hook(&self, effect: &Effect) -> Option<DueHook> {
        // Nothing that it could allow happens any more.
        let is_allowed = |due: &DueHook| !(due.event.is_before() && self.process.stop_requested);
        self.find_due_hook(effect).filter(is_allowed)
    }

    /// The same, whatever was requested meanwhile.
    fn find_due_hook(&self, effect: &Effect) -> Option<DueHook> {
        let is_immediate = matches!(
            effect,
            Effect::Append(_) | Effect::Latch | Effect::Cancel(_) | Effect::Start(_)
        );
        if is_immediate || self.started.is_none() {
            return None;
        }
        // What made the checks green belongs to the completion.
        let waits = |due: &DueHook| due.event.is_end() && matches!(effect, Effect::Explain);
        if let Some(due) = self.hooks.due.first() {
            return Some(due.clone()).filter(|due| !waits(due));
        }
        if self.is_stopped() {
            return None;
        }
        let of_effect = match effect {
            Effect::Prepare(_) => &[HookEvent::BeforeIteration, HookEvent::Context][..],
            Effect::Validate(_) => &[HookEvent::BeforeValidation],
            _ => &[],
        };
        let start = [HookEvent::BeforeRun, HookEvent::BeforeItem];
        let mut before = start.iter().chain(of_effect).copied();
        let is_due = |event: &HookEvent| {
            self.hooks.events.contains(event) && !self.hooks.passed.contains(event)
        };
        let event = before.find(is_due)?;
        let details = match effect {
            Effect::Prepare(start) if of_effect.contains(&event) => {
                json!({"iteration": start.iteration, "attempt": start.attempt})
            }
            _ => json!({"iteration": self.iterations}),
        };
        Some(DueHook { event, details })
    }
}

/// Records the end of an event's commands, and goes on to the effect before which they were run, or stops the run.
pub(super) fn finished(next: &mut Transition, end: HookEnd, effect: Effect) {
    let is_due = next.state.find_due_hook(&effect).is_some_and(|due| due.event == end.event);
    if !is_due || next.state.running.is_some() {
        return;
    }
    let is_before = end.event.is_before();
    if is_before && ignores_verdicts(next, end.interrupted, end.out_of_time) {
        return;
    }
    let (event, problem) = (end.event, end.problem());
    let (iteration, runtime_ms) = (next.state.iterations, next.runtime_ms());
    let commands = end.commands;
    next.record(Record::HookFinished { event, iteration, commands, runtime_ms });
    let problem = problem.map(|problem| format!("{}: {problem}", event.key()));
    match (problem, effect) {
        (Some(problem), _) if is_before => next.finish(StopReason::NeedsHuman, problem),
        (Some(problem), effect) => {
            next.warn([problem]);
            next.effect(effect);
        }
        // Time has passed.
        (None, Effect::Prepare(_)) if is_before => wait_finished(next),
        (None, _) if is_before && next.state.process.stop_requested => finish_interrupted(next),
        (None, effect) => next.effect(effect),
    }
}
