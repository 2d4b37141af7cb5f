//! What the trials of a job may cost.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::Usd;
use serde::{Deserialize, Serialize};

use crate::job::ledger_entry::LedgerEntry;

/// Limits on money, in US dollars; none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgets {
    /// Of one trial.
    pub trial: Option<Usd>,
    /// Of all trials of one agent.
    pub agent: Option<Usd>,
    /// Of the job.
    pub job: Option<Usd>,
}

/// What was spent, and what trials that are being performed may spend still.
#[derive(Clone, Debug, Default)]
pub struct SpentMoney {
    /// What each iteration of an attempt has cost: another worker may repeat a line at any time.
    attempts: BTreeMap<(String, u32), BTreeMap<u64, Usd>>,
    by_agent: BTreeMap<String, Usd>,
    total: Usd,
    reserved_by_agent: BTreeMap<String, Usd>,
    reserved: Usd,
}

impl SpentMoney {
    /// Adds a line of the ledger. A line that is there already replaces itself: the larger amount counts.
    pub fn add(&mut self, entry: &LedgerEntry) {
        let attempt = self.attempts.entry((entry.trial.clone(), entry.attempt)).or_default();
        let known = attempt.entry(entry.iteration).or_default();
        let more = entry.cost_usd.unwrap_or(Usd::ZERO).saturating_sub(*known);
        *known += more;
        self.total += more;
        *self.by_agent.entry(entry.agent.clone()).or_default() += more;
    }

    /// Returns what the job has cost so far, in US dollars.
    #[must_use]
    pub const fn total(&self) -> Usd {
        self.total
    }

    /// Returns what the next trial of `agent` may cost, if `slots` trials are to be begun at once; none is no
    /// limit. Zero if nothing is left.
    pub(super) fn allowance(&self, budgets: &Budgets, agent: &str, slots: u32) -> Option<Usd> {
        let spent = |map: &BTreeMap<String, Usd>| map.get(agent).copied().unwrap_or_default();
        let left = |limit: Usd, used: Usd, reserved: Usd| {
            let left = limit.saturating_sub(used).saturating_sub(reserved);
            Usd::from_nanos(left.nanos() / u64::from(slots.max(1)))
        };
        let of_job = budgets.job.map(|limit| left(limit, self.total, self.reserved));
        let of_agent = budgets
            .agent
            .map(|limit| left(limit, spent(&self.by_agent), spent(&self.reserved_by_agent)));
        [budgets.trial, of_job, of_agent].into_iter().flatten().min()
    }

    /// Reserves what a trial may cost.
    pub(super) fn reserve(&mut self, agent: &str, amount: Option<Usd>) {
        let amount = amount.unwrap_or_default();
        self.reserved += amount;
        *self.reserved_by_agent.entry(agent.to_owned()).or_default() += amount;
    }

    /// Takes a reservation back.
    pub(super) fn release(&mut self, agent: &str, amount: Option<Usd>) {
        let amount = amount.unwrap_or_default();
        self.reserved = self.reserved.saturating_sub(amount);
        if let Some(reserved) = self.reserved_by_agent.get_mut(agent) {
            *reserved = reserved.saturating_sub(amount);
        }
    }
}
