//! The limits that stop a run.

use ralph_orchestrator_contract::{ErrorClass, Usd};
use serde::{Deserialize, Serialize};

use super::state::State;
use super::stop::{Stop, StopReason};

/// The message of a stop by `max_runtime`.
pub(super) const OUT_OF_TIME: &str = "limits.max_runtime is used up";

/// A limit of `[limits]` that the machine applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Iterations.
    Iterations,
    /// Wall time.
    Runtime,
    /// Money.
    Cost,
    /// Tokens of all kinds.
    Tokens,
    /// Consecutive failed iterations.
    Failures,
    /// Iterations in a row without progress.
    Stagnant,
    /// Rejections of the same tree and evidence.
    Rejections,
    /// The longest wait for a rate limit.
    Wait,
}

/// The value of a limit, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitValue {
    /// A number of what is counted.
    Count(u64),
    /// A duration in milliseconds.
    Duration(u64),
    /// An amount of money.
    Money(Usd),
}

impl LimitValue {
    /// Returns the number of what is counted, of milliseconds, or of billionths of a dollar.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Count(amount) | Self::Duration(amount) => amount,
            Self::Money(usd) => usd.nanos(),
        }
    }
}

impl Limit {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Iterations,
        Self::Runtime,
        Self::Cost,
        Self::Tokens,
        Self::Failures,
        Self::Stagnant,
        Self::Rejections,
        Self::Wait,
    ];

    /// Returns its key, and the reason for which a run stops that has used it up.
    const fn row(self) -> (&'static str, StopReason) {
        match self {
            Self::Iterations => ("limits.max_iterations", StopReason::MaxIterations),
            Self::Runtime => ("limits.max_runtime", StopReason::MaxRuntime),
            Self::Cost => ("limits.max_cost_usd", StopReason::MaxCost),
            Self::Tokens => ("limits.max_tokens", StopReason::MaxTokens),
            Self::Failures => ("limits.max_failures", StopReason::Failures),
            // With a claim pending it is thrashing.
            Self::Stagnant => ("limits.max_stagnant", StopReason::Stagnation),
            Self::Rejections => ("limits.max_rejections", StopReason::Thrashing),
            Self::Wait => ("limits.max_wait", StopReason::NeedsHuman),
        }
    }

    /// Returns its key in `ralph.toml`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        self.row().0
    }

    /// Returns the reason for which a run stops that has used it up.
    #[must_use]
    pub const fn stop_reason(self) -> StopReason {
        self.row().1
    }

    fn stop(self, message: &str) -> Stop {
        Stop::new(self.stop_reason(), format!("{message} ({})", self.key()))
    }
}

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
    /// Iterations of the initializer; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_initializer_attempts: Option<u32>,
    /// The run ends once the initializer's products are there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ends_initialized: bool,
    /// What an iteration is charged at least if its end is never known, while none has been charged
    /// yet. Zero for an agent that costs nothing.
    pub first_reservation: Usd,
    /// The share of its context, in thousandths, at which an iteration is handed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_per_mille: Option<u64>,
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
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
            max_initializer_attempts: None,
            ends_initialized: false,
            first_reservation: Usd::ZERO,
            handoff_per_mille: None,
        }
    }
}

impl RunLimits {
    /// Returns the value of a limit; `None` if it is off.
    #[must_use]
    pub fn value(&self, limit: Limit) -> Option<LimitValue> {
        let count = |max: u32| (max < u32::MAX).then_some(LimitValue::Count(max.into()));
        match limit {
            Limit::Iterations => self.max_iterations.map(LimitValue::Count),
            Limit::Runtime => self.max_runtime_ms.map(LimitValue::Duration),
            Limit::Cost => self.max_cost_usd.map(LimitValue::Money),
            Limit::Tokens => self.max_tokens.map(LimitValue::Count),
            Limit::Failures => count(self.max_failures),
            Limit::Stagnant => count(self.max_stagnant),
            Limit::Rejections => count(self.max_rejections),
            Limit::Wait => {
                (self.max_wait_ms < u64::MAX).then_some(LimitValue::Duration(self.max_wait_ms))
            }
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

/// Returns the stop if a limit on what the run may use is reached.
pub(super) fn budget_exceeded(state: &State) -> Option<Stop> {
    let limits = &state.limits;
    let (cost, tokens) = (state.cost(), state.tokens().total());
    // An iteration that is begun again counts once.
    let used = state.iterations.saturating_sub(u64::from(state.repeats_iteration()));
    if let Some(max) = limits.max_iterations.filter(|max| used >= *max) {
        let all = match max {
            // The limit was lowered since.
            max if used > max => format!("{used} iterations are used, and the limit is {max}"),
            1 => "the only iteration is used".to_owned(),
            max => format!("all {max} iterations are used"),
        };
        return Some(Limit::Iterations.stop(&all));
    }
    if limits.max_runtime_ms.is_some_and(|max| state.budget.runtime_ms >= max) {
        return Some(Stop::new(StopReason::MaxRuntime, OUT_OF_TIME));
    }
    if let Some(max) = limits.max_cost_usd.filter(|max| cost >= *max) {
        return Some(Limit::Cost.stop(&format!("{cost} of {max} are spent")));
    }
    let max = limits.max_tokens.filter(|max| tokens >= *max)?;
    Some(Limit::Tokens.stop(&format!("{tokens} of {max} tokens are used")))
}

fn too_many_failures(state: &State) -> Option<Stop> {
    let agent = &state.agent;
    if agent.failures < state.limits.max_failures {
        return None;
    }
    let last = agent.last_error.as_ref();
    let reason = match last.map(|error| &error.class) {
        Some(ErrorClass::Unavailable) => StopReason::AgentUnavailable,
        _ => Limit::Failures.stop_reason(),
    };
    let text = format!(
        "{} failed ({}); last: {}",
        in_a_row(agent.failures),
        Limit::Failures.key(),
        last.map_or("", |error| error.message.as_str())
    );
    Some(Stop::new(reason, text))
}

fn too_many_rejections(state: &State) -> Option<Stop> {
    let times = state.rejected_in_a_row();
    let plural = if times == 1 { "" } else { "s" };
    (times >= state.limits.max_rejections).then(|| {
        Limit::Rejections.stop(&format!("the same work was rejected {times} time{plural}"))
    })
}

fn stagnation(state: &State) -> Option<Stop> {
    let max = state.limits.max_stagnant;
    if state.progress.stagnant >= max {
        let count = in_a_row(state.progress.stagnant_iterations);
        return Some(if state.is_claimed() {
            let text = format!("{count} changed neither the verdict nor the evidence");
            Stop { reason: StopReason::Thrashing, ..Limit::Stagnant.stop(&text) }
        } else {
            Limit::Stagnant.stop(&format!("{count} made no progress"))
        });
    }
    (state.claims.says_all_done >= max).then(|| {
        let count = in_a_row(state.claims.says_all_done);
        Limit::Stagnant.stop(&format!("{count} said that the work is done, but claimed nothing"))
    })
}

fn in_a_row(iterations: u32) -> String {
    match iterations {
        1 => "1 iteration".to_owned(),
        many => format!("{many} iterations in a row"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_config::keys;
    use std::collections::BTreeSet;

    /// A limit that is added to the configuration alone would never stop a run.
    #[test]
    fn every_limit_of_the_configuration_on_the_whole_run_is_applied() {
        let all = keys();
        let configured = all.iter().filter(|key| key.starts_with("limits.max_"));
        let configured: BTreeSet<&str> = configured.map(String::as_str).collect();
        assert_eq!(BTreeSet::from(Limit::ALL.map(Limit::key)), configured);
    }

    #[test]
    fn a_limit_that_is_off_has_no_value() {
        let off = RunLimits::default();
        assert!(Limit::ALL.into_iter().all(|limit| off.value(limit).is_none()));
        let on = RunLimits { max_failures: 3, max_wait_ms: 5, ..off };
        assert_eq!(on.value(Limit::Failures), Some(LimitValue::Count(3)));
        assert_eq!(on.value(Limit::Wait), Some(LimitValue::Duration(5)));
    }
}
