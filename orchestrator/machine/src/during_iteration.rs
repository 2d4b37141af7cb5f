//! Inputs while the agent runs, and its end.

use ralph_orchestrator_contract::{CancelReason, Usage, Usd};

use super::handoff::DEFAULT_WINDOW;
use super::input::{Effect, IterationEnd, Timer};
use super::outcome::IterationOutcome;
use super::record::Record;
use super::state::ContextUsage;
use super::transition::Transition;

/// The longest note, in bytes.
const LONGEST_NOTE: usize = 8 * 1024;
/// The most notes that are recorded of one iteration.
const MOST_NOTES: u32 = 200;
/// A change of the context is recorded from this fraction of its window on.
const CONTEXT_FRACTION: u64 = 100;

pub(super) fn context(next: &mut Transition, context: ContextUsage) {
    if next.state.running.is_none() {
        return;
    }
    let ContextUsage { used, window } = context;
    let step = window.unwrap_or(DEFAULT_WINDOW) / CONTEXT_FRACTION;
    let known = next.state.agent.context;
    let crosses = known.is_none_or(|known| !next.state.reaches_handoff(known))
        && next.state.reaches_handoff(context);
    if crosses
        || known
            .is_none_or(|known| known.window != window || known.used.abs_diff(used) >= step.max(1))
    {
        next.record(Record::Context { used, window });
    }
}

pub(super) fn model(next: &mut Transition, model: String) {
    let Some(running) = &next.state.running else { return };
    if next.state.agent.reported_model.as_ref() != Some(&model) {
        let iteration = running.iteration;
        next.record(Record::Model { iteration, model });
    }
}

pub(super) fn note(next: &mut Transition, text: &str) {
    let Some(running) = &next.state.running else { return };
    let text = text.trim();
    if text.is_empty() || running.notes >= MOST_NOTES {
        return;
    }
    let iteration = running.iteration;
    let kept = text.get(..text.floor_char_boundary(LONGEST_NOTE)).unwrap_or(text);
    let cut = if kept.len() < text.len() { " [cut]" } else { "" };
    next.record(Record::Note { iteration, text: format!("{kept}{cut}") });
}

pub(super) fn previewed(next: &mut Transition, accepted: bool, reasons: Vec<String>) {
    let Some(running) = &next.state.running else { return };
    let (iteration, runtime_ms) = (running.iteration, next.runtime_ms());
    next.record(Record::Previewed { iteration, accepted, reasons, runtime_ms });
}

pub(super) fn usage(next: &mut Transition, usage: Usage) {
    let Some(running) = &next.state.running else { return };
    let usage = running.usage.max(usage);
    if usage == running.usage {
        return;
    }
    let cancelling = running.cancelling.is_some();
    let runtime_ms = next.runtime_ms();
    next.record(Record::Usage { usage, runtime_ms });
    if cancelling {
        return;
    }
    if let Some(reason) = next.state.limit_reached_by(usage) {
        next.cancel(reason);
    }
}

pub(super) fn timer(next: &mut Transition, timer: Timer) {
    let reason = match timer {
        Timer::Clock if next.state.started.is_none() || next.state.stop.is_some() => return,
        Timer::Clock => {
            let runtime_ms = next.runtime_ms();
            return next.record(Record::Clock { runtime_ms });
        }
        Timer::IterationTimeout => CancelReason::Timeout,
        Timer::Idle => CancelReason::Idle,
        Timer::MaxRuntime => CancelReason::MaxRuntime,
        Timer::Handoff => CancelReason::Handoff,
    };
    next.cancel_running(reason);
}

/// Stops the run because a person asked for it, or because the terminal went away.
pub(super) fn signal(next: &mut Transition, is_hangup: bool) {
    let state = &next.state;
    if state.process.stop_requested || state.started.is_none() || state.stop.is_some() {
        return;
    }
    let reason = CancelReason::Signal;
    let works = state.running.as_ref().is_some_and(|running| running.cancelling.is_none());
    next.record(Record::Cancelling { reason, is_hangup });
    // An agent that is being stopped already is not stopped again.
    if works {
        next.effect(Effect::Cancel(reason));
    }
}

pub(super) fn ended(next: &mut Transition, ended: IterationEnd) {
    if next.state.running.is_none() {
        return;
    }
    close(next, ended);
    next.effect(Effect::Observe);
}

/// Records the end of the running iteration and its charge.
pub(super) fn close(next: &mut Transition, ended: IterationEnd) {
    let Some(running) = &next.state.running else { return };
    let usage = running.usage.max(ended.usage);
    let outcome = match (running.cancelling, ended.outcome) {
        // The agent ended well before the cancellation reached it.
        (Some(_), IterationOutcome::Succeeded) => IterationOutcome::Succeeded,
        (Some(reason), outcome) if outcome != IterationOutcome::Interrupted => {
            IterationOutcome::StoppedEarly { reason }
        }
        (_, outcome) => outcome,
    };
    let minimum = match outcome {
        IterationOutcome::Interrupted => Usd::ZERO.max(running.reservation),
        IterationOutcome::Failed { .. } | IterationOutcome::StoppedEarly { .. }
            if usage.cost.is_none() =>
        {
            running.reservation
        }
        // Else a limit of cost would never end a run of an agent that does not keep its promise.
        _ if ended.promises_cost && usage.cost.is_none() => running.reservation,
        _ => Usd::ZERO,
    };
    let is_missing = ended.promises_cost && usage.cost.is_none();
    if is_missing && outcome == IterationOutcome::Succeeded {
        let message = format!(
            "the agent promises to report its cost (the capability `cost`) and reported none: the \
             iteration is charged its reservation, {minimum}"
        );
        next.record(Record::Warning { message });
    }
    let Some(running) = &next.state.running else { return };
    let cost_usd = usage.cost.unwrap_or_default().max(minimum);
    let iteration = running.iteration;
    let runtime_ms = next.runtime_ms();
    next.record(Record::IterationEnded {
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
