//! The limits that stop a run.

use serde::{Deserialize, Serialize};

use super::state::State;
use super::stop::{Stop, StopReason};
use ralph_orchestrator_contract::{ErrorClass, Usd};

/// The message of a stop by `max_runtime`.
pub(super) const OUT_OF_TIME: &str = "limits.max_runtime is used up";

/// The limits as the machine applies them; durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Iterations; `None` is no limit.
    pub max_iterations: Option<u64>,
    /// Wall time of the run, without the time it was down.
    pub max_runtime_ms: Option<u64>,
    /// Money.
    pub max_cost_usd: Option<Usd>,
    /// Tokens of all kinds.
    pub max_tokens: Option<u64>,
    /// Consecutive failed iterations.
    pub max_failures: u32,
    /// Iterations in a row without progress.
    pub max_stagnant: u32,
    /// Rejections of the same tree and evidence.
    pub max_rejections: u32,
    /// The longest wait for a rate limit.
    pub max_wait_ms: u64,
    /// What an iteration is charged at least if its end is never known, while none has been charged
    /// yet. Zero for an agent that costs nothing.
    pub first_reservation: Usd,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_iterations: None,
            max_runtime_ms: None,
            max_cost_usd: None,
            max_tokens: None,
            max_failures: u32::MAX,
            max_stagnant: u32::MAX,
            max_rejections: u32::MAX,
            max_wait_ms: u64::MAX,
            first_reservation: Usd::ZERO,
        }
    }
}

/// Returns the stop if a limit does not allow another iteration.
pub(super) fn exceeded(state: &State) -> Option<Stop> {
    let mut stop = budget_exceeded(state)
        .or_else(|| too_many_failures(state))
        .or_else(|| too_many_rejections(state))
        .or_else(|| stagnation(state))?;
    if state.validation.rejection.is_some()
        && let Some(line) = state.claims.stats.summary_line()
    {
        stop.message = format!("{}; {line}", stop.message);
    }
    Some(stop)
}

fn budget_exceeded(state: &State) -> Option<Stop> {
    let limits = &state.limits;
    let (cost, tokens) = (state.cost(), state.tokens().total());
    // An iteration that is begun again counts once.
    let used = state.iterations.saturating_sub(u64::from(state.repeats_iteration()));
    if let Some(max) = limits.max_iterations.filter(|max| used >= *max) {
        let all = match max {
            1 => "the only iteration is used (limits.max_iterations)".to_owned(),
            max => format!("all {max} iterations are used (limits.max_iterations)"),
        };
        return Some(Stop::new(StopReason::MaxIterations, all));
    }
    if limits.max_runtime_ms.is_some_and(|max| state.budget.runtime_ms >= max) {
        return Some(Stop::new(StopReason::MaxRuntime, OUT_OF_TIME));
    }
    if let Some(max) = limits.max_cost_usd.filter(|max| cost >= *max) {
        let text = format!("{cost} of {max} are spent (limits.max_cost_usd)");
        return Some(Stop::new(StopReason::MaxCost, text));
    }
    let max = limits.max_tokens.filter(|max| tokens >= *max)?;
    let text = format!("{tokens} of {max} tokens are used (limits.max_tokens)");
    Some(Stop::new(StopReason::MaxTokens, text))
}

fn too_many_failures(state: &State) -> Option<Stop> {
    let agent = &state.agent;
    if agent.failures < state.limits.max_failures {
        return None;
    }
    let last = agent.last_error.as_ref();
    let reason = match last.map(|error| &error.class) {
        Some(ErrorClass::Unavailable) => StopReason::AgentUnavailable,
        _ => StopReason::Failures,
    };
    let text = format!(
        "{} failed (limits.max_failures); last: {}",
        in_a_row(agent.failures),
        last.map_or("", |error| error.message.as_str())
    );
    Some(Stop::new(reason, text))
}

fn too_many_rejections(state: &State) -> Option<Stop> {
    let times = state.rejected_in_a_row();
    (times >= state.limits.max_rejections).then(|| {
        let text = format!("the same work was rejected {times} times (limits.max_rejections)");
        Stop::new(StopReason::Thrashing, text)
    })
}

fn stagnation(state: &State) -> Option<Stop> {
    let max = state.limits.max_stagnant;
    if state.progress.stagnant >= max {
        let count = in_a_row(state.progress.stagnant_iterations);
        return Some(if state.is_claimed() {
            let what = "changed neither the verdict nor the evidence (limits.max_stagnant)";
            Stop::new(StopReason::Thrashing, format!("{count} {what}"))
        } else {
            let text = format!("{count} made no progress (limits.max_stagnant)");
            Stop::new(StopReason::Stagnation, text)
        });
    }
    (state.claims.says_all_done >= max).then(|| {
        let count = in_a_row(state.claims.says_all_done);
        let what = "said that the work is done, but claimed nothing (limits.max_stagnant)";
        Stop::new(StopReason::Stagnation, format!("{count} {what}"))
    })
}

fn in_a_row(iterations: u32) -> String {
    match iterations {
        1 => "1 iteration".to_owned(),
        many => format!("{many} iterations in a row"),
    }
}
