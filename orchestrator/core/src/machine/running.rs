//! What happens while the agent runs, and when it has ended.

use super::input::{Effect, Ended, Timer};
use super::record::{Outcome, Record};
use super::state::{Context, State};
use super::step::Turn;
use ralph_orchestrator_contract::{CancelReason, Usage, Usd};

/// The longest note, in bytes.
const LONGEST_NOTE: usize = 8 * 1024;
/// Most notes that are kept of one iteration.
const MOST_NOTES: u32 = 200;
/// A context counts as another one when this share of its window came or went.
const CONTEXT_SHARE: u64 = 100;
/// The window if nobody says how large it is, in tokens.
const USUAL_WINDOW: u64 = 200_000;

pub(super) fn context(turn: &mut Turn, context: Context) {
    if turn.state.current.is_none() {
        return;
    }
    let Context { used, window } = context;
    let step = window.unwrap_or(USUAL_WINDOW) / CONTEXT_SHARE;
    let known = turn.state.context;
    if known.is_none_or(|known| known.window != window || known.used.abs_diff(used) >= step.max(1))
    {
        turn.record(Record::Context { used, window });
    }
}

pub(super) fn model(turn: &mut Turn, model: String) {
    let Some(current) = &turn.state.current else { return };
    if turn.state.model.as_ref() != Some(&model) {
        let iteration = current.iteration;
        turn.record(Record::Model { iteration, model });
    }
}

pub(super) fn noted(turn: &mut Turn, text: &str) {
    let Some(current) = &turn.state.current else { return };
    let text = text.trim();
    if text.is_empty() || current.notes >= MOST_NOTES {
        return;
    }
    let iteration = current.iteration;
    let kept = text.get(..text.floor_char_boundary(LONGEST_NOTE)).unwrap_or(text);
    let cut = if kept.len() < text.len() { " [cut]" } else { "" };
    turn.record(Record::Note { iteration, text: format!("{kept}{cut}") });
}

pub(super) fn judged(turn: &mut Turn, accepted: bool, reasons: Vec<String>) {
    let Some(current) = &turn.state.current else { return };
    let (iteration, runtime_ms) = (current.iteration, turn.runtime_ms());
    turn.record(Record::Judged { iteration, accepted, reasons, runtime_ms });
}

pub(super) fn used(turn: &mut Turn, usage: Usage) {
    let Some(current) = &turn.state.current else { return };
    let usage = current.usage.max(usage);
    if usage == current.usage {
        return;
    }
    let cancelling = current.cancelling.is_some();
    let runtime_ms = turn.runtime_ms();
    turn.record(Record::Usage { usage, runtime_ms });
    if cancelling {
        return;
    }
    if let Some(reason) = turn.state.reached_by(usage) {
        turn.cancel(reason);
    }
}

impl State {
    /// The limit that the running iteration reaches when it has used so much.
    #[must_use]
    pub fn reached_by(&self, usage: Usage) -> Option<CancelReason> {
        let cost = self.charged + usage.cost.unwrap_or_default();
        let tokens = self.used + usage.tokens.unwrap_or_default();
        if self.limits.max_cost_usd.is_some_and(|max| cost >= max) {
            Some(CancelReason::MaxCost)
        } else if self.limits.max_tokens.is_some_and(|max| tokens.total() >= max) {
            Some(CancelReason::MaxTokens)
        } else {
            None
        }
    }
}

pub(super) fn timer(turn: &mut Turn, timer: Timer) {
    let reason = match timer {
        Timer::Tick if turn.state.started.is_none() || turn.state.stop.is_some() => return,
        Timer::Tick => {
            let runtime_ms = turn.runtime_ms();
            return turn.record(Record::Tick { runtime_ms });
        }
        Timer::IterationTimeout => CancelReason::Timeout,
        Timer::Idle => CancelReason::Idle,
        Timer::MaxRuntime => CancelReason::MaxRuntime,
    };
    if turn.state.current.as_ref().is_some_and(|current| current.cancelling.is_none()) {
        turn.cancel(reason);
    }
}

pub(super) fn signal(turn: &mut Turn) {
    let state = &turn.state;
    if state.stopping || state.started.is_none() || state.stop.is_some() {
        return;
    }
    match &turn.state.current {
        // It is being ended already: only note that the run has to stop as well.
        Some(current) if current.cancelling.is_some() => {
            turn.record(Record::Cancelling { reason: CancelReason::Signal });
        }
        _ => turn.cancel(CancelReason::Signal),
    }
}

pub(super) fn ended(turn: &mut Turn, ended: Ended) {
    if turn.state.current.is_none() {
        return;
    }
    close(turn, ended);
    turn.effect(Effect::Look);
}

/// Records the end of the open iteration and what it is charged.
pub(super) fn close(turn: &mut Turn, ended: Ended) {
    let Some(current) = &turn.state.current else { return };
    let usage = current.usage.max(ended.usage);
    let outcome = match (current.cancelling, ended.outcome) {
        // It came to a good end before the cancellation reached it.
        (Some(_), Outcome::Succeeded) => Outcome::Succeeded,
        (Some(reason), outcome) if outcome != Outcome::Lost => Outcome::Cut { reason },
        (_, outcome) => outcome,
    };
    let known = match outcome {
        Outcome::Lost => Usd::ZERO.max(current.reservation),
        Outcome::Failed { .. } | Outcome::Cut { .. } if usage.cost.is_none() => current.reservation,
        _ => Usd::ZERO,
    };
    let cost_usd = usage.cost.unwrap_or_default().max(known);
    let iteration = current.iteration;
    let runtime_ms = turn.runtime_ms();
    turn.record(Record::IterationEnded {
        iteration,
        outcome,
        usage,
        cost_usd,
        says_done: ended.says_done,
        says_all_done: ended.says_all_done,
        tool_calls: ended.tool_calls,
        left_behind: ended.left_behind,
        survived: ended.survived,
        runtime_ms,
    });
}
