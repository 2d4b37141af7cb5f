//! Hand-off: an iteration ends in good order before its context is full.

use ralph_orchestrator_contract::CancelReason;

use super::outcome::IterationOutcome;
use super::record::Record;
use super::state::{ContextUsage, Note, State};
use super::transition::Transition;

/// The assumed window if the agent does not report it, in tokens.
pub(super) const DEFAULT_WINDOW: u64 = 200_000;
/// How a note of the orchestrator begins.
const NOTE: &str = "Hand-off: ";
/// The most changed files that it names.
const MOST_FILES: usize = 10;

impl State {
    /// Returns how full a context is, in thousandths. An agent that does not report its window has that
    /// which it reported last, or the most common one.
    #[must_use]
    pub fn context_per_mille(&self, context: ContextUsage) -> u64 {
        let window = context.window.or(self.agent.window).filter(|window| *window > 0);
        context.used.saturating_mul(1000) / window.unwrap_or(DEFAULT_WINDOW)
    }

    /// Whether an iteration whose context is this full has to be handed off.
    #[must_use]
    pub fn reaches_handoff(&self, context: ContextUsage) -> bool {
        let share = self.context_per_mille(context);
        self.limits.handoff_per_mille.is_some_and(|at| share >= at)
    }

    /// Whether the orchestrator ended the last iteration because its context got full.
    pub(super) const fn is_ended_for_handoff(&self) -> bool {
        matches!(
            self.last_outcome,
            Some(IterationOutcome::StoppedEarly { reason: CancelReason::Handoff })
        )
    }

    /// Whether the last iteration was ended because its context got full, by the orchestrator or by itself.
    #[must_use]
    pub fn is_handed_off(&self) -> bool {
        let is_full = || self.agent.context.is_some_and(|context| self.reaches_handoff(context));
        self.is_ended_for_handoff()
            || (self.last_outcome == Some(IterationOutcome::Succeeded) && is_full())
    }

    /// Returns the note that the orchestrator left when it ended the last iteration for its context.
    #[must_use]
    pub fn handoff_note(&self) -> Option<&Note> {
        let is_last = |note: &&Note| note.iteration == self.iterations && note.is_handoff();
        self.notes.iter().rev().find(is_last).filter(|_| self.is_ended_for_handoff())
    }
}

impl Note {
    /// Whether it has the form of a note that the orchestrator leaves; an agent's may have it too.
    #[must_use]
    pub fn is_handoff(&self) -> bool {
        self.text.starts_with(NOTE)
    }
}

/// Leaves a note for the next iteration, once, if the orchestrator ended the last one for its context.
pub(super) fn leave_note(next: &mut Transition) {
    let state = &next.state;
    let iteration = state.iterations;
    let mut notes = state.notes.iter().filter(|note| note.iteration == iteration);
    if !state.is_ended_for_handoff() || notes.any(Note::is_handoff) {
        return;
    }
    let at = match state.agent.context.map(|context| state.context_per_mille(context)) {
        Some(share) => format!("at {}.{} % of its context", share / 10, share % 10),
        None => "after the time that an iteration has".to_owned(),
    };
    let mut text = format!(
        "{NOTE}iteration {iteration} was ended {at}, in the middle of its work. Continue with the files \
         as they are; check what is finished before you rely on it."
    );
    if let Some(changes) = state.last_changes.as_ref().filter(|changes| !changes.is_empty()) {
        let named = changes.paths.iter().take(MOST_FILES).map(|file| file.path.as_str());
        let more = changes.paths.len() > MOST_FILES;
        let more = if more { ", and more" } else { "" };
        let named = named.collect::<Vec<_>>().join(", ");
        text.push_str(&format!(" It changed: {named}{more}."));
    }
    let saved = state.saves.iteration == Some(iteration);
    if let Some(commit) = state.saves.commit.as_ref().filter(|_| saved && state.saves.committed) {
        text.push_str(&format!(" Its work is in commit {commit}."));
    }
    next.record(Record::Note { iteration, text });
}
