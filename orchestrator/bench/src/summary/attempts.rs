//! Records put together to trials.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{Tokens, Usd};

use crate::trial::{CheatKind, Column, TrialKey, TrialRecord};

/// A trial with all of its attempts, of which there is at least one.
pub(super) struct Trial<'a> {
    earlier: Vec<&'a TrialRecord>,
    last: &'a TrialRecord,
}

impl<'a> Trial<'a> {
    /// Returns the trial of attempts, by their numbers; none without any.
    fn from_attempts(attempts: BTreeMap<u32, &'a TrialRecord>) -> Option<Self> {
        let mut earlier: Vec<&TrialRecord> = attempts.into_values().collect();
        let last = earlier.pop()?;
        Some(Self { earlier, last })
    }

    pub(super) const fn key(&self) -> &'a TrialKey {
        &self.last.key
    }

    /// Returns the attempt that counts for the score.
    pub(super) const fn last(&self) -> &'a TrialRecord {
        self.last
    }

    pub(super) fn attempts(&self) -> impl Iterator<Item = &'a TrialRecord> + '_ {
        self.earlier.iter().copied().chain([self.last])
    }

    /// Returns how often it was repeated after a fault. That it was interrupted is none.
    pub(super) fn count_retries(&self) -> u64 {
        let repeated = self.earlier.iter().filter(|attempt| !attempt.is_cancelled());
        u64::try_from(repeated.count()).unwrap_or(u64::MAX)
    }

    pub(super) fn has_cheated(&self) -> bool {
        self.attempts().any(|attempt| !attempt.cheating.is_empty())
    }

    pub(super) fn has_cheated_by(&self, kind: CheatKind) -> bool {
        self.attempts().any(|attempt| attempt.cheating.iter().any(|finding| finding.kind == kind))
    }
}

/// Returns the trials of records in any order, sorted by their keys.
pub(super) fn group_by_trial(records: &[TrialRecord]) -> Vec<Trial<'_>> {
    let mut trials: BTreeMap<&TrialKey, BTreeMap<u32, &TrialRecord>> = BTreeMap::new();
    for record in records {
        // The same attempt again, as from a journal that was read twice, or after a new verification.
        trials.entry(&record.key).or_default().insert(record.attempt, record);
    }
    trials.into_values().filter_map(Trial::from_attempts).collect()
}

/// Returns the rewards of the judged trials of each task of a column.
pub(super) fn collect_rewards(column: &Column, trials: &[Trial<'_>]) -> BTreeMap<String, Vec<f64>> {
    let mut rewards: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.key().column == *column) {
        if let Some(reward) = trial.last().reward() {
            rewards.entry(trial.key().task.clone()).or_default().push(reward);
        }
    }
    rewards
}

/// What attempts have cost.
#[derive(Default)]
pub(super) struct Spending {
    /// As far as it is known.
    pub(super) cost: Usd,
    /// Attempts with a known cost.
    pub(super) known: u64,
    /// Attempts that began a run and whose cost is not known.
    pub(super) unknown: u64,
    /// Part of the cost was computed.
    pub(super) is_estimated: bool,
    /// Tokens.
    pub(super) tokens: Tokens,
}

impl Spending {
    /// Returns the known part of the cost in US dollars; none if something was spent and no part of it is known.
    pub(super) fn dollars(&self) -> Option<f64> {
        (self.known > 0 || self.unknown == 0).then(|| self.cost.dollars())
    }

    /// Sums up all attempts of trials.
    pub(super) fn from_trials(trials: &[&Trial<'_>]) -> Self {
        let mut sum = Self::default();
        for attempt in trials.iter().flat_map(|trial| trial.attempts()) {
            sum.tokens += attempt.usage.tokens.unwrap_or_default();
            if let Some(cost) = attempt.usage.cost {
                sum.cost += cost;
                sum.known += 1;
                sum.is_estimated |= attempt.usage.estimated;
            } else if attempt.run.is_some() {
                // Without a run no agent was started, and nothing was spent.
                sum.unknown += 1;
            }
        }
        sum
    }
}
