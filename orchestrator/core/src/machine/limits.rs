//! Bounds that stop a run, and the words for why it ended.

use serde::{Deserialize, Serialize};

use super::state::State;
use ralph_orchestrator_contract::Usd;

/// What is said of `max_runtime`.
pub(super) const OUT_OF_TIME: &str = "limits.max_runtime is used up";

/// The limits as the machine applies them; durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Iterations; `None` is no bound.
    pub max_iterations: Option<u64>,
    /// Wall time of the run, without the time it was down.
    pub max_runtime_ms: Option<u64>,
    /// Money.
    pub max_cost_usd: Option<Usd>,
    /// Tokens of all kinds.
    pub max_tokens: Option<u64>,
    /// Consecutive failed iterations.
    pub max_failures: u32,
    /// Iterations in a row without anything new.
    pub max_stagnant: u32,
    /// Rejections of the same tree and evidence.
    pub max_rejections: u32,
    /// The longest wait for a rate limit.
    pub max_wait_ms: u64,
    /// What an iteration is charged at least if its end is never known, while none has been charged
    /// yet. Zero for an agent that costs nothing.
    pub first_reservation: Usd,
}

/// Why a run ended, or ended for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The completion was claimed, validated and latched.
    Completed,
    /// `limits.max_iterations`.
    MaxIterations,
    /// `limits.max_runtime`.
    MaxRuntime,
    /// `limits.max_cost_usd`.
    MaxCost,
    /// `limits.max_tokens`.
    MaxTokens,
    /// `limits.max_failures`.
    Failures,
    /// `limits.max_stagnant`.
    Stagnation,
    /// `limits.max_rejections`.
    Thrashing,
    /// Asked for, or blocked: not logged in, out of credit, a wait longer than allowed.
    NeedsHuman,
    /// The agent cannot be started.
    AgentUnavailable,
    /// A signal or `stop`; the run can be resumed.
    Interrupted,
    /// `run --once`: its one iteration is over.
    Once,
}

impl StopReason {
    /// The stable word, as in the journal and every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxIterations => "max_iterations",
            Self::MaxRuntime => "max_runtime",
            Self::MaxCost => "max_cost",
            Self::MaxTokens => "max_tokens",
            Self::Failures => "failures",
            Self::Stagnation => "stagnation",
            Self::Thrashing => "thrashing",
            Self::NeedsHuman => "needs_human",
            Self::AgentUnavailable => "agent_unavailable",
            Self::Interrupted => "interrupted",
            Self::Once => "once",
        }
    }
}

/// The limit that does not allow another iteration, if any, with what happened, for people.
pub(super) fn exceeded(state: &State) -> Option<(StopReason, String)> {
    let (reason, message) = reached(state)?;
    let tally = state.tally.line().filter(|_| state.rejection.is_some());
    let what = tally.map(|line| format!("; {line}")).unwrap_or_default();
    Some((reason, format!("{message}{what}")))
}

fn reached(state: &State) -> Option<(StopReason, String)> {
    let limits = &state.limits;
    let cost = state.cost();
    let tokens = state.tokens().total();
    // One that is begun again is used once.
    let used = state.iterations.saturating_sub(u64::from(state.repeats()));
    if let Some(max) = limits.max_iterations.filter(|max| used >= *max) {
        let all = match max {
            1 => "the only iteration is used (limits.max_iterations)".to_owned(),
            max => format!("all {max} iterations are used (limits.max_iterations)"),
        };
        return Some((StopReason::MaxIterations, all));
    }
    if limits.max_runtime_ms.is_some_and(|max| state.runtime_ms >= max) {
        return Some((StopReason::MaxRuntime, OUT_OF_TIME.into()));
    }
    if let Some(max) = limits.max_cost_usd.filter(|max| cost >= *max) {
        return Some((
            StopReason::MaxCost,
            format!("{cost} of {max} are spent (limits.max_cost_usd)"),
        ));
    }
    if let Some(max) = limits.max_tokens.filter(|max| tokens >= *max) {
        return Some((
            StopReason::MaxTokens,
            format!("{tokens} of {max} tokens are used (limits.max_tokens)"),
        ));
    }
    if state.failures >= limits.max_failures {
        let last = state.last_error.as_ref().map_or("", |error| error.message.as_str());
        let reason = match &state.last_error {
            Some(error) if error.class == "unavailable" => StopReason::AgentUnavailable,
            _ => StopReason::Failures,
        };
        return Some((
            reason,
            format!("{} failed (limits.max_failures); last: {last}", in_a_row(state.failures)),
        ));
    }
    if state.rejected_in_a_row() >= limits.max_rejections {
        let times = state.rejected_in_a_row();
        let text = format!("the same work was rejected {times} times (limits.max_rejections)");
        return Some((StopReason::Thrashing, text));
    }
    stagnation(state)
}

fn in_a_row(iterations: u32) -> String {
    match iterations {
        1 => "1 iteration".to_owned(),
        many => format!("{many} iterations in a row"),
    }
}

/// Iterations that came to nothing.
fn stagnation(state: &State) -> Option<(StopReason, String)> {
    let max = state.limits.max_stagnant;
    let count = state.stagnant_iterations;
    if state.stagnant >= max && state.is_claimed() {
        let text = format!(
            "{} changed neither the verdict nor the evidence (limits.max_stagnant)",
            in_a_row(count)
        );
        return Some((StopReason::Thrashing, text));
    }
    if state.stagnant >= max {
        let text = format!("{} made no progress (limits.max_stagnant)", in_a_row(count));
        return Some((StopReason::Stagnation, text));
    }
    if state.says_all_done >= max {
        let text = format!(
            "{} said that the work is done, but claimed nothing (limits.max_stagnant)",
            in_a_row(state.says_all_done)
        );
        return Some((StopReason::Stagnation, text));
    }
    None
}
