//! One agent taking over from another.

use super::boundary;
use super::record::{Outcome, Record};
use super::step::Turn;

/// The longest wait for a provider as long as another agent could work meanwhile.
const LONGEST_WAIT_MS: u64 = 5 * 60_000;

/// Lets the next agent take over if the last iteration ended with one that cannot go on, and if there
/// is a next.
pub(super) fn agent(turn: &mut Turn) {
    // After a restart the first one is tried again.
    if turn.state.resumed || turn.state.again {
        return;
    }
    let reason = match &turn.state.last_outcome {
        Some(Outcome::Failed { class, message })
            if ["unavailable", "unauthenticated", "billing", "not_found"]
                .contains(&class.as_str()) =>
        {
            format!("{class}: {message}")
        }
        Some(Outcome::Deferred { class, message, until_ms }) => {
            let until_ms = boundary::worth_trying(turn, *until_ms);
            let wait_ms = until_ms.saturating_sub(turn.now.unix_ms);
            if wait_ms <= LONGEST_WAIT_MS.min(turn.state.limits.max_wait_ms) {
                return;
            }
            format!("{class}: {message}")
        }
        _ => return,
    };
    out(turn, reason);
}

/// The agent cannot go on.
pub(super) fn out(turn: &mut Turn, reason: String) {
    let state = &turn.state;
    if state.started.is_none() || state.current.is_some() || state.completion().is_some() {
        return;
    }
    if let Some(to) = state.fallback.first().cloned() {
        turn.record(Record::AgentChanged { from: state.agent.clone(), to, reason });
    }
}
