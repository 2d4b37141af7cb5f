//! Limits that hold for all runs together.

use std::time::Duration;

use ralph_orchestrator_config::Limits;
use ralph_orchestrator_contract::{Tokens, Usd};
use ralph_orchestrator_machine::{State, StopReason};
use serde::{Deserialize, Serialize};

/// What runs have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Iterations.
    pub iterations: u64,
    /// Wall time, in milliseconds.
    pub runtime_ms: u64,
    /// Cost.
    pub cost_usd: Usd,
    /// Tokens, by class.
    pub tokens: Tokens,
}

impl RunUsage {
    /// Returns what a run has used.
    #[must_use]
    pub fn from_state(state: &State) -> Self {
        Self {
            iterations: state.iterations,
            runtime_ms: state.budget.runtime_ms,
            cost_usd: state.cost(),
            tokens: state.tokens(),
        }
    }

    /// Returns both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            iterations: self.iterations.saturating_add(other.iterations),
            runtime_ms: self.runtime_ms.saturating_add(other.runtime_ms),
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: self.tokens + other.tokens,
        }
    }

    fn runtime(self) -> Duration {
        Duration::from_millis(self.runtime_ms)
    }
}

/// Returns what is left of the limits when runs have used so much.
pub(crate) fn remaining(limits: &Limits, used: RunUsage) -> Limits {
    let cost = |max: Usd| Usd::from_nanos(max.nanos().saturating_sub(used.cost_usd.nanos()));
    Limits {
        max_iterations: limits.max_iterations.map(|max| max.saturating_sub(used.iterations)),
        max_runtime: limits.max_runtime.map(|max| max.saturating_sub(used.runtime())),
        max_cost_usd: limits.max_cost_usd.map(cost),
        max_tokens: limits.max_tokens.map(|max| max.saturating_sub(used.tokens.total())),
        ..limits.clone()
    }
}

/// Returns why no further run may begin, if a limit does not allow it.
pub(crate) fn exceeded(limits: &Limits, used: RunUsage) -> Option<(StopReason, String)> {
    let left = remaining(limits, used);
    let all = "by the runs of this backlog together";
    if left.max_iterations == Some(0) {
        let text = format!("limits.max_iterations is used up {all}: {}", used.iterations);
        return Some((StopReason::MaxIterations, text));
    }
    if left.max_runtime == Some(Duration::ZERO) {
        return Some((StopReason::MaxRuntime, format!("limits.max_runtime is used up {all}")));
    }
    if left.max_cost_usd == Some(Usd::ZERO) {
        let text = format!("{} are spent {all} (limits.max_cost_usd)", used.cost_usd);
        return Some((StopReason::MaxCost, text));
    }
    if left.max_tokens == Some(0) {
        let text = format!("{} tokens are used {all} (limits.max_tokens)", used.tokens.total());
        return Some((StopReason::MaxTokens, text));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(iterations: u64, runtime_ms: u64, nanos: u64, tokens: u64) -> RunUsage {
        // All classes count.
        let tokens =
            Tokens { cache_read: tokens / 2, output: tokens - tokens / 2, ..Tokens::default() };
        RunUsage { iterations, runtime_ms, cost_usd: Usd::from_nanos(nanos), tokens }
    }

    fn limits() -> Limits {
        Limits {
            max_iterations: Some(5),
            max_runtime: Some(Duration::from_secs(2)),
            max_cost_usd: Some(Usd::from_nanos(100)),
            max_tokens: Some(10),
            ..Limits::default()
        }
    }

    #[test]
    fn a_run_gets_what_the_others_left() {
        let left = remaining(&limits(), used(2, 500, 30, 4));
        assert_eq!(left.max_iterations, Some(3));
        assert_eq!(left.max_runtime, Some(Duration::from_millis(1500)));
        assert_eq!(left.max_cost_usd, Some(Usd::from_nanos(70)));
        assert_eq!(left.max_tokens, Some(6));
        assert_eq!(left.max_failures, limits().max_failures);
    }

    #[test]
    fn each_limit_stops_exactly_when_it_is_used_up() {
        let reason = |used| exceeded(&limits(), used).map(|(reason, _)| reason);
        assert_eq!(reason(used(4, 1999, 99, 9)), None);
        assert_eq!(reason(used(5, 0, 0, 0)), Some(StopReason::MaxIterations));
        assert_eq!(reason(used(9, 0, 0, 0)), Some(StopReason::MaxIterations));
        assert_eq!(reason(used(0, 2000, 0, 0)), Some(StopReason::MaxRuntime));
        assert_eq!(reason(used(0, 0, 100, 0)), Some(StopReason::MaxCost));
        assert_eq!(reason(used(0, 0, 0, 11)), Some(StopReason::MaxTokens));
    }

    #[test]
    fn a_limit_that_is_off_never_stops() {
        let off = Limits {
            max_iterations: None,
            max_runtime: None,
            max_cost_usd: None,
            max_tokens: None,
            ..Limits::default()
        };
        assert_eq!(exceeded(&off, used(u64::MAX, u64::MAX, 1 << 60, u64::MAX)), None);
    }
}
