//! What one item may use before it is blocked, so that the others get their turn.

use ralph_orchestrator_config::{CountOrAuto, Limits};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{Limit, RunUsage, StopKind, StopReason};

use crate::budget::exceeded;
use crate::executor::RunReport;

/// Of the iterations of all items, one that is bounded by "auto" gets one in so many,
const SHARE: u64 = 10;
/// but at least so many,
const LEAST_SHARE: u64 = 10;
/// and of fewer that are left half, but at least so many.
const LEAST_HALF: u64 = 3;

/// What an item may use before it is blocked.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemLimits {
    /// Iterations.
    pub max_iterations: CountOrAuto,
    /// Dollars.
    pub max_cost_usd: Option<Usd>,
}

impl ItemLimits {
    /// Returns the limits of an item's run, of which the limits of all items have `left` so much. The item's other runs
    /// have `used` so much; `has_others`: other items could be worked on instead.
    pub(crate) fn bound(
        self,
        left: &Limits,
        limits: &Limits,
        used: RunUsage,
        has_others: bool,
    ) -> Limits {
        let iterations = match self.max_iterations {
            CountOrAuto::Count(most) => Some(most),
            CountOrAuto::Auto if has_others => Some(share(limits, left)),
            CountOrAuto::Auto | CountOrAuto::Unlimited => None,
        };
        let iterations = iterations.map(|most| most.saturating_sub(used.iterations));
        let cost = self.max_cost_usd.map(Usd::nanos);
        let cost = cost.map(|most| Usd::from_nanos(most.saturating_sub(used.cost_usd.nanos())));
        Limits {
            max_iterations: least(left.max_iterations, iterations),
            max_cost_usd: least(left.max_cost_usd, cost),
            ..left.clone()
        }
    }

    /// Returns why the end of a run blocks its item; `None` if that ended for something else than the item. The other runs
    /// have used so much of the limits of all items.
    pub(crate) fn find_block(
        self,
        report: &RunReport,
        limits: &Limits,
        others: RunUsage,
    ) -> Option<String> {
        // One whose checks accept before any work is no reason to leave the others.
        let is_refused = report.reason == StopReason::Baseline;
        if report.reason.kind() == StopKind::Stuck || is_refused {
            return Some(report.message.clone());
        }
        let limit = report.reason.budget()?;
        let usage = RunUsage::from_state(&report.state);
        // A limit that a person set for this run is that person's.
        let is_set = report.state.controls.limits.origin(limit).is_some();
        if is_set || exceeded(limits, others.plus(usage), None).is_some() {
            return None;
        }
        match limit {
            Limit::Iterations => Some(format!(
                "not complete after {} iterations (backlog.max_item_iterations)",
                usage.iterations
            )),
            Limit::Cost if self.max_cost_usd.is_some() => {
                Some(format!("not complete for {} (backlog.max_item_cost_usd)", usage.cost_usd))
            }
            _ => None,
        }
    }
}

/// Returns the iterations of an item while others could be worked on.
fn share(limits: &Limits, left: &Limits) -> u64 {
    let of_all = limits.max_iterations.map_or(0, |max| max / SHARE).max(LEAST_SHARE);
    left.max_iterations.map_or(of_all, |left| of_all.min((left / 2).max(LEAST_HALF)))
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(
        setting: CountOrAuto,
        max: Option<u64>,
        left: Option<u64>,
        others: bool,
    ) -> Option<u64> {
        let limits = Limits { max_iterations: max, ..Limits::default() };
        let left = Limits { max_iterations: left, ..Limits::default() };
        let item = ItemLimits { max_iterations: setting, max_cost_usd: None };
        item.bound(&left, &limits, RunUsage::default(), others).max_iterations
    }

    #[test]
    fn an_item_leaves_the_others_something() {
        use CountOrAuto::{Auto, Count, Unlimited};
        for (setting, max, left, others, expected) in [
            (Auto, Some(100), Some(100), true, Some(10)),
            (Auto, Some(1000), Some(1000), true, Some(100)),
            (Auto, Some(40), Some(40), true, Some(10)),
            (Auto, Some(100), Some(12), true, Some(6)),
            (Auto, Some(5), Some(5), true, Some(3)),
            (Auto, Some(2), Some(2), true, Some(2)),
            (Auto, None, None, true, Some(10)),
            (Auto, Some(100), Some(100), false, Some(100)),
            (Count(4), Some(100), Some(100), true, Some(4)),
            (Count(4), Some(100), Some(100), false, Some(4)),
            (Count(4), Some(3), Some(3), true, Some(3)),
            (Unlimited, Some(100), Some(100), true, Some(100)),
            (Unlimited, None, None, true, None),
        ] {
            let found = bounded(setting, max, left, others);
            assert_eq!(found, expected, "{setting:?} {max:?} {left:?} {others}");
        }
    }

    #[test]
    fn what_earlier_runs_of_the_item_used_counts() {
        let used = RunUsage { iterations: 3, cost_usd: Usd::from_nanos(60), ..RunUsage::default() };
        let item = ItemLimits {
            max_iterations: CountOrAuto::Count(4),
            max_cost_usd: Some(Usd::from_nanos(100)),
        };
        let limits = Limits::default();
        let bound = item.bound(&limits, &limits, used, false);
        assert_eq!(bound.max_iterations, Some(1));
        assert_eq!(bound.max_cost_usd, Some(Usd::from_nanos(40)));
    }
}
