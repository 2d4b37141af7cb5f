//! What the agents that are no agents say about tasks: work of `nop` has no reward, that of `oracle` the full one.

use std::collections::BTreeSet;

use super::attempts::Trial;
use crate::trial::{NOP, ORACLE, TrialRecord};

/// Tasks that a line names.
const NAMED: usize = 5;

/// Tasks that are not what they should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokenTasks {
    /// Those that reward doing nothing.
    pub rewarding_nop: BTreeSet<String>,
    /// Those whose own solution has less than the full reward.
    pub failing_oracle: BTreeSet<String>,
}

impl BrokenTasks {
    /// Returns what the last attempts at trials say about their tasks.
    #[must_use]
    pub fn from_records<'a>(records: impl IntoIterator<Item = &'a TrialRecord>) -> Self {
        let mut found = Self::default();
        for record in records {
            let task = &record.key.task;
            match (record.key.column.agent.as_str(), record.reward()) {
                (NOP, Some(reward)) if reward > 0.0 => found.rewarding_nop.insert(task.clone()),
                (ORACLE, Some(reward)) if reward < 1.0 => found.failing_oracle.insert(task.clone()),
                _ => false,
            };
        }
        found
    }

    pub(super) fn from_trials(trials: &[Trial<'_>]) -> Self {
        Self::from_records(trials.iter().map(Trial::last))
    }

    /// Returns a line for each kind of them, without a full stop.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let line = |what: &str, tasks: &BTreeSet<String>| {
            let named: Vec<&str> = tasks.iter().take(NAMED).map(String::as_str).collect();
            let more = match tasks.len().saturating_sub(NAMED) {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let noun = if tasks.len() == 1 { "task" } else { "tasks" };
            format!("{what} on {} {noun}: {}{more}", tasks.len(), named.join(", "))
        };
        let kinds = [
            ("nop is rewarded", &self.rewarding_nop),
            ("oracle has less than the full reward", &self.failing_oracle),
        ];
        kinds
            .into_iter()
            .filter(|(_, tasks)| !tasks.is_empty())
            .map(|(what, tasks)| line(what, tasks))
            .collect()
    }
}
