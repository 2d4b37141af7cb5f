//! Failover from one agent to the next.

use ralph_orchestrator_contract::ErrorClass;

use super::deferral;
use super::outcome::IterationOutcome;
use super::record::Record;
use super::transition::Transition;

/// The longest wait for a provider while another agent could work.
const LONGEST_WAIT_MS: u64 = 5 * 60_000;

/// Fails over if the last iteration ended with an agent that cannot continue.
pub(super) fn fail_over_if_needed(next: &mut Transition) {
    // After a restart the first agent is tried again.
    if next.state.process.resumed || next.state.agent.retrying {
        return;
    }
    let (class, message) = match &next.state.last_outcome {
        Some(IterationOutcome::Failed { class, message }) if is_unusable(class) => (class, message),
        Some(outcome @ IterationOutcome::Deferred { class, message }) => {
            let retry_at_ms = deferral::retry_at(next, outcome.retry_at_ms());
            if is_short(next, retry_at_ms) {
                return;
            }
            (class, message)
        }
        _ => return,
    };
    let reason = format!("{}: {message}", class.word());
    fail_over(next, reason);
}

/// Whether a wait until then is shorter than what another agent would take over for.
pub(super) fn is_short(next: &Transition, until_ms: u64) -> bool {
    let wait_ms = until_ms.saturating_sub(next.now.unix_ms);
    wait_ms <= LONGEST_WAIT_MS.min(next.state.limits.max_wait_ms)
}

const fn is_unusable(class: &ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Unavailable
            | ErrorClass::Unauthenticated
            | ErrorClass::Billing
            | ErrorClass::NotFound
    )
}

/// Lets the next agent take over, if there is one.
pub(super) fn fail_over(next: &mut Transition, reason: String) {
    let state = &next.state;
    if state.started.is_none() || state.running.is_some() || state.completion().is_some() {
        return;
    }
    if let Some(to) = state.agent.fallback.first().cloned() {
        next.record(Record::AgentChanged {
            from: state.agent.name.clone(),
            to,
            reason,
            escalated: false,
        });
    }
}
