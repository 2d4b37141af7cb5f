//! Which limits a run has reached, and the stop that follows.

use std::collections::BTreeSet;

use ralph_orchestrator_config::Limits;
use ralph_orchestrator_contract::{CancelReason, ErrorClass, Usage};

use super::limits::{BudgetRow, Limit, LimitValue, RunLimits, RunUsage};
use super::state::State;
use super::stop::{Stop, StopReason};

/// The message of a stop by `max_runtime`.
pub(super) const OUT_OF_TIME: &str = "limits.max_runtime is used up";

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
}

impl Limit {
    fn stop(self, message: &str) -> Stop {
        Stop::new(self.stop_reason(), format!("{message} ({})", self.key()))
    }
}

/// Returns the stop if a limit does not allow another iteration.
pub(super) fn find_exceeded(state: &State) -> Option<Stop> {
    let mut stop = find_exceeded_budget(state)
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
pub(super) fn find_exceeded_budget(state: &State) -> Option<Stop> {
    let (limit, row, used, max) = find_reached(state, &state.limits).next()?;
    Some(stop_used_up(limit, row, used, max))
}

/// Returns which of these limits on what the run may use are reached, each with what is used of it.
fn find_reached<'a>(
    state: &State,
    limits: &'a RunLimits,
) -> impl Iterator<Item = (Limit, &'static BudgetRow, u64, LimitValue)> + use<'a> {
    // An iteration that is begun again counts once.
    let iterations = state.iterations.saturating_sub(u64::from(state.repeats_iteration()));
    let usage = RunUsage { iterations, ..RunUsage::from_state(state) };
    Limit::budgets().filter_map(move |(limit, row)| {
        let (used, max) = (row.used(&usage), limits.value(limit)?);
        (used >= max.amount()).then_some((limit, row, used, max))
    })
}

fn stop_used_up(limit: Limit, row: &BudgetRow, used: u64, max: LimitValue) -> Stop {
    match (limit, max) {
        (Limit::Runtime, _) => Stop::new(limit.stop_reason(), OUT_OF_TIME),
        // The limit was lowered since.
        (Limit::Iterations, LimitValue::Count(max)) if used > max => {
            limit.stop(&format!("{used} iterations are used, and the limit is {max}"))
        }
        (Limit::Iterations, LimitValue::Count(1)) => limit.stop("the only iteration is used"),
        (Limit::Iterations, max) => limit.stop(&format!("all {max} iterations are used")),
        (_, max) => {
            let used = limit.row().unit.to_value(used);
            limit.stop(&format!("{used} of {max} {}", row.used_up))
        }
    }
}

impl State {
    /// Returns the limits of the next start if it states none: those of this configuration, or else of the last start, with
    /// what `limits` has set.
    #[must_use]
    pub fn next_limits(&self, configured: Option<&Limits>) -> RunLimits {
        let last = || {
            let last = self.controls.configured_limits.clone();
            RunLimits { stated: BTreeSet::new(), ..last }
        };
        self.controls.limits.over(&configured.map_or_else(last, RunLimits::from_config))
    }

    /// Returns which of these limits on what the run may use are used up.
    pub fn used_up<'a>(&self, limits: &'a RunLimits) -> impl Iterator<Item = Limit> + use<'a> {
        find_reached(self, limits).map(|(limit, ..)| limit)
    }

    /// Returns why the running iteration is to be cancelled with this usage: the limit that it reaches.
    #[must_use]
    pub fn limit_reached_by(&self, usage: Usage) -> Option<CancelReason> {
        let usage = RunUsage {
            cost_usd: self.budget.cost_charged + usage.cost.unwrap_or_default(),
            tokens: self.budget.tokens_used + usage.tokens.unwrap_or_default(),
            ..RunUsage::from_state(self)
        };
        let mut reached = Limit::budgets().filter_map(|(limit, row)| {
            let is_reached = row.used(&usage) >= self.limits.value(limit)?.amount();
            row.cancel_reason.filter(|_| is_reached)
        });
        reached.next()
    }

    /// Whether the agent has not said how much of a limit it has used.
    #[must_use]
    pub fn is_unreported(&self, row: &BudgetRow) -> bool {
        row.is_unreported(&RunUsage::from_state(self), &self.budget)
    }

    /// Whether a limit on what the run may use is reached, so that no iteration may follow.
    #[must_use]
    pub fn is_out_of_budget(&self) -> bool {
        find_exceeded_budget(self).is_some()
    }
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
