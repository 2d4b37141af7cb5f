//! What an iteration of an agent usually costs.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::Usd;

use super::ledger_entry::LedgerEntry;

/// What iterations of each agent have cost so far.
#[derive(Clone, Debug, Default)]
pub(super) struct UsualCosts {
    by_agent: BTreeMap<String, AgentCosts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct AgentCosts {
    reported: CostSum,
    estimated: CostSum,
}

#[derive(Clone, Copy, Debug, Default)]
struct CostSum {
    sum: Usd,
    count: u64,
}

impl UsualCosts {
    /// Adds a line of the ledger.
    pub(super) fn add(&mut self, entry: &LedgerEntry) {
        let Some(cost) = entry.cost_usd.filter(|cost| *cost > Usd::ZERO) else { return };
        let costs = self.by_agent.entry(entry.agent.clone()).or_default();
        let sum = if entry.estimated { &mut costs.estimated } else { &mut costs.reported };
        sum.sum += cost;
        sum.count += 1;
    }

    /// Returns the mean of what iterations of this agent reported, or else of what was estimated for them; none if nothing is
    /// known.
    pub(super) fn of(&self, agent: &str) -> Option<Usd> {
        let costs = self.by_agent.get(agent)?;
        [costs.reported, costs.estimated].iter().find_map(|costs| costs.mean())
    }
}

impl CostSum {
    fn mean(self) -> Option<Usd> {
        self.sum.nanos().checked_div(self.count).map(Usd::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_costs_count_before_estimates() {
        let mut costs = UsualCosts::default();
        let mut add = |agent: &str, cost: Option<u64>, estimated| {
            costs.add(&LedgerEntry {
                trial: "t".to_owned(),
                agent: agent.to_owned(),
                attempt: 1,
                iteration: 1,
                run: String::new(),
                tokens: None,
                cost_usd: cost.map(Usd::from_nanos),
                estimated,
            });
        };
        for (agent, cost, estimated) in [
            ("a", Some(10), false),
            ("a", Some(20), false),
            ("a", Some(900), true),
            ("a", None, false),
            ("a", Some(0), true),
            ("b", Some(6), true),
            ("c", Some(0), false),
        ] {
            add(agent, cost, estimated);
        }
        let of = |agent: &str| costs.of(agent).map(Usd::nanos);
        assert_eq!((of("a"), of("b"), of("c"), of("d")), (Some(15), Some(6), None, None));
    }
}
