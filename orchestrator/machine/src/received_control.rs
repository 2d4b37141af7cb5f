//! Decides whether a control can take effect, and performs at once what cannot wait.

use std::collections::BTreeSet;

use ralph_orchestrator_contract::CancelReason;

use super::control::Control;
use super::during_iteration;
use super::input::ReceivedControl;
use super::record::Record;
use super::state::State;
use super::transition::Transition;

/// Records a control, with the reason if it cannot take effect, and performs it. One that is known, or
/// comes after the completion, is none.
pub(super) fn received(next: &mut Transition, received: ReceivedControl) {
    let ReceivedControl { origin, control } = received;
    let state = &next.state;
    if state.started.is_none()
        || state.completion().is_some()
        || state.controls.received.contains(&origin.id)
    {
        return;
    }
    let refused = refusal(state, &control);
    let is_refused = refused.is_some();
    next.record(match control.clone() {
        Control::Answer { text } if !is_refused => Record::Answered { text, origin: Some(origin) },
        control => Record::ControlReceived { origin, control, refused },
    });
    if is_refused {
        return;
    }
    match control {
        Control::Pause { now: true } => next.cancel_running(CancelReason::Pause),
        Control::Limits(_) => enforce_limits(next),
        Control::Stop => during_iteration::signal(next, false),
        Control::Steer { .. }
        | Control::Answer { .. }
        | Control::Pause { now: false }
        | Control::Resume => {}
    }
}

/// Records that the running agent is given guidance.
pub(super) fn guidance_taken(next: &mut Transition, mut ids: Vec<String>) {
    let Some(iteration) = next.state.running.as_ref().map(|running| running.iteration) else {
        return;
    };
    let undelivered: BTreeSet<String> =
        next.state.undelivered_guidance().map(|guidance| guidance.id).collect();
    ids.retain(|id| undelivered.contains(id));
    if !ids.is_empty() {
        next.record(Record::GuidanceDelivered { iteration, ids });
    }
}

/// Returns why a control cannot take effect.
fn refusal(state: &State, control: &Control) -> Option<String> {
    let reason = match control {
        Control::Steer { text } | Control::Answer { text } if text.trim().is_empty() => {
            "the text is empty"
        }
        Control::Pause { now } => {
            let pause = state.controls.pause.as_ref()?;
            if *now && !pause.now && !pause.in_effect {
                return None;
            }
            return Some(format!("already paused by {}", pause.origin.user));
        }
        Control::Resume if !state.is_pause_requested() => "the run is not paused",
        Control::Limits(changes) if changes.is_empty() => "no limit is given",
        Control::Stop if state.stop.is_some() => "the run has stopped",
        Control::Steer { .. }
        | Control::Answer { .. }
        | Control::Resume
        | Control::Limits(_)
        | Control::Stop => return None,
    };
    Some(reason.to_owned())
}

/// Cancels the running iteration if a limit that was set just now is reached already.
fn enforce_limits(next: &mut Transition) {
    let Some(running) = &next.state.running else { return };
    let is_late = next.state.limits.max_runtime_ms.is_some_and(|max| next.runtime_ms() >= max);
    let reached = next.state.limit_reached_by(running.usage);
    if let Some(reason) = reached.or_else(|| is_late.then_some(CancelReason::MaxRuntime)) {
        next.cancel_running(reason);
    }
}
