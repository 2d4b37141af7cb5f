//! Limits that hold for all runs together.

use ralph_orchestrator_config::Limits;
use ralph_orchestrator_machine::{BudgetRow, Limit, LimitValue, RunUsage, State, StopReason};

/// Returns what is left of the limits when runs have used so much.
pub(crate) fn remaining(limits: &Limits, used: RunUsage) -> Limits {
    let mut left = limits.clone();
    for (limit, row) in Limit::budgets() {
        let max = limit.configured(limits).map(LimitValue::amount);
        row.configure(&mut left, max.map(|max| max.saturating_sub(row.used(&used))));
    }
    left
}

/// Returns why no further run may begin, if a limit does not allow it. A run that is resumed goes on for as long as `limits`
/// has set for it.
pub(crate) fn exceeded(
    limits: &Limits,
    used: RunUsage,
    resumed: Option<&State>,
) -> Option<(StopReason, String)> {
    let is_set =
        |limit: Limit| resumed.is_some_and(|state| state.controls.limits.origin(limit).is_some());
    let mut reached =
        Limit::budgets().filter(|(limit, _)| !is_set(*limit)).filter_map(|(limit, row)| {
            let (amount, max) = (row.used(&used), limit.configured(limits)?.amount());
            (amount >= max).then(|| (limit.stop_reason(), used_up(limit, row, amount)))
        });
    reached.next()
}

fn used_up(limit: Limit, row: &BudgetRow, amount: u64) -> String {
    let (key, all) = (limit.key(), "by the runs of this backlog together");
    match limit {
        Limit::Iterations => format!("{key} is used up {all}: {amount}"),
        Limit::Runtime => format!("{key} is used up {all}"),
        _ => format!("{} {} {all} ({key})", limit.row().unit.to_value(amount), row.used_up),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ralph_orchestrator_contract::{Tokens, Usd};
    use ralph_orchestrator_machine::{Control, ControlOrigin, LimitChanges, Record};

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
        let reason = |used| exceeded(&limits(), used, None).map(|(reason, _)| reason);
        assert_eq!(reason(used(4, 1999, 99, 9)), None);
        assert_eq!(reason(used(5, 0, 0, 0)), Some(StopReason::MaxIterations));
        assert_eq!(reason(used(9, 0, 0, 0)), Some(StopReason::MaxIterations));
        assert_eq!(reason(used(0, 2000, 0, 0)), Some(StopReason::MaxRuntime));
        assert_eq!(reason(used(0, 0, 100, 0)), Some(StopReason::MaxCost));
        assert_eq!(reason(used(0, 0, 0, 11)), Some(StopReason::MaxTokens));
    }

    #[test]
    fn a_limit_that_was_set_for_a_run_is_the_only_one_for_that() {
        let mut state = State::default();
        state.apply(&Record::ControlReceived {
            origin: ControlOrigin {
                id: "a".into(),
                user: "ada".into(),
                program: "command line".into(),
                sent_ms: 1,
            },
            control: Control::Limits(LimitChanges::default().with(Limit::Iterations, None)),
            refused: None,
        });
        let reason = |used| exceeded(&limits(), used, Some(&state)).map(|(reason, _)| reason);
        assert_eq!(reason(used(9, 0, 0, 0)), None);
        assert_eq!(reason(used(9, 0, 0, 11)), Some(StopReason::MaxTokens));
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
        assert_eq!(exceeded(&off, used(u64::MAX, u64::MAX, 1 << 60, u64::MAX), None), None);
    }
}
