//! Trials that earlier jobs have performed already.

use std::collections::BTreeMap;
use std::path::Path;

use super::plan::JobPlan;
use super::store::JobContents;
use crate::trial::{Cause, ReusedTrial, TrialRecord};

/// Returns the records of trials that need not be performed, since these jobs performed the same: each trial of an
/// earlier job at most once, the oldest first, and only what was judged within its budgets.
#[must_use]
pub fn find_reusable(plan: &JobPlan, earlier: &[(&Path, JobContents)]) -> Vec<TrialRecord> {
    let Some(lock) = &plan.lock else { return Vec::new() };
    let mut known: BTreeMap<[String; 7], Vec<(&Path, &JobContents, &TrialRecord)>> =
        BTreeMap::new();
    for (dir, contents) in earlier {
        let Some(of_job) = &contents.plan.lock else { continue };
        if contents.plan.goal != plan.goal {
            continue;
        }
        for (key, record) in contents.last_records() {
            // Rewards of other tests are not those of this task.
            let of_task = of_job.tasks.get(&key.task).map(String::as_str);
            if is_reusable(record)
                && of_task == Some(record.verifier_digest())
                && let Some(identity) = of_job.identify(&key)
            {
                known.entry(identity).or_default().push((dir, contents, record));
            }
        }
    }
    for found in known.values_mut() {
        // The newest one first: the oldest one is taken from the end.
        found.sort_by_key(|(_, _, record)| std::cmp::Reverse(record.finished));
    }
    let mut reused = Vec::new();
    for key in plan.trials() {
        let found = lock.identify(&key).and_then(|identity| known.get_mut(&identity)?.pop());
        let Some((dir, contents, record)) = found else { continue };
        let from = ReusedTrial {
            job: contents.plan.id.clone(),
            folder: contents.plan.trial_layout(dir, &record.key).attempt(record.attempt),
        };
        reused.push(TrialRecord { key, attempt: 1, reused: Some(from), ..record.clone() });
    }
    add_warnings(plan, &mut reused);
    reused
}

/// Only results of which nothing would be different in another job are taken: what was itself taken from elsewhere
/// would be counted under two names.
fn is_reusable(record: &TrialRecord) -> bool {
    let is_cut = record.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Budget);
    record.is_judged() && !is_cut && record.reused.is_none()
}

/// Says of each column how many trials are no new samples.
fn add_warnings(plan: &JobPlan, reused: &mut [TrialRecord]) {
    let mut counts = BTreeMap::new();
    for record in reused.iter() {
        *counts.entry(record.key.column.clone()).or_insert(0_u64) += 1;
    }
    let planned = u64::try_from(plan.tasks.len()).unwrap_or(0) * u64::from(plan.trials);
    for record in reused {
        let column = &record.key.column;
        let count = counts.get(column).copied().unwrap_or(0);
        record.warnings.push(format!(
            "{count} of {planned} trials of {column} were taken from earlier jobs: they are the same samples, not \
             independent ones, and their cost was paid there"
        ));
    }
}
