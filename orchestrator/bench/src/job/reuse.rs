//! Trials that earlier jobs have performed already.

use std::collections::BTreeMap;
use std::path::Path;

use super::job_lock::{JobLock, TrialIdentity};
use super::plan::JobPlan;
use super::store::JobContents;
use crate::trial::{Cause, ReusedTrial, TrialKey, TrialRecord};

/// What a job takes from earlier ones.
#[derive(Clone, Debug, Default)]
pub struct ReusedTrials {
    /// The records of trials that need not be performed.
    pub records: Vec<TrialRecord>,
    /// Each other trial, and why no earlier result is taken for it.
    pub refused: Vec<(TrialKey, String)>,
}

/// A result of an earlier job.
#[derive(Clone, Copy)]
struct EarlierTrial<'a> {
    dir: &'a Path,
    contents: &'a JobContents,
    record: &'a TrialRecord,
}

type EarlierTrials<'a, K> = BTreeMap<K, Vec<EarlierTrial<'a>>>;

/// Returns the records of trials that need not be performed, since these jobs performed the same: each trial of an
/// earlier job at most once, the oldest first, and only what was judged within its budgets.
#[must_use]
pub fn find_reusable(plan: &JobPlan, earlier: &[(&Path, JobContents)]) -> ReusedTrials {
    let mut found = ReusedTrials::default();
    let Some(lock) = &plan.lock else { return found };
    let by_key = collect_by_key(earlier);
    let mut known = collect_known(plan, &by_key);
    for key in plan.trials() {
        let same = lock.identify(&key).and_then(|identity| known.get_mut(&identity)?.pop());
        let Some(EarlierTrial { dir, contents, record }) = same else {
            let of_key = by_key.get(&key).and_then(|found| found.first());
            let reason = explain_refusal(plan, lock, &key, of_key);
            found.refused.push((key, reason));
            continue;
        };
        let from = ReusedTrial {
            job: contents.plan.id.clone(),
            folder: contents.plan.trial_layout(dir, &record.key).attempt(record.attempt),
        };
        found.records.push(TrialRecord { key, attempt: 1, reused: Some(from), ..record.clone() });
    }
    add_warnings(plan, &mut found.records);
    found
}

/// Returns the last results of each trial, the newest first.
fn collect_by_key<'a>(earlier: &'a [(&'a Path, JobContents)]) -> EarlierTrials<'a, TrialKey> {
    let mut by_key = EarlierTrials::new();
    for (dir, contents) in earlier {
        for (key, record) in contents.last_records() {
            by_key.entry(key).or_default().push(EarlierTrial { dir, contents, record });
        }
    }
    for found in by_key.values_mut() {
        found.sort_by_key(|earlier| std::cmp::Reverse(earlier.record.finished));
    }
    by_key
}

/// Returns the results that can be taken, the oldest last.
fn collect_known<'a>(
    plan: &JobPlan,
    by_key: &EarlierTrials<'a, TrialKey>,
) -> EarlierTrials<'a, TrialIdentity> {
    let mut known = EarlierTrials::new();
    for (key, found) in by_key {
        for earlier in found {
            if find_defect(plan, earlier).is_none()
                && let Some(of_job) = &earlier.contents.plan.lock
                && let Some(identity) = of_job.identify(key)
            {
                known.entry(identity).or_default().push(*earlier);
            }
        }
    }
    for found in known.values_mut() {
        found.sort_by_key(|earlier: &EarlierTrial<'_>| std::cmp::Reverse(earlier.record.finished));
    }
    known
}

/// Returns why a result says nothing of any other job. Only results of which nothing would be different there are taken:
/// what was itself taken from elsewhere would be counted under two names.
fn find_defect(plan: &JobPlan, earlier: &EarlierTrial<'_>) -> Option<&'static str> {
    let EarlierTrial { contents, record, .. } = earlier;
    let is_cut = record.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Budget);
    let of_task = contents.plan.lock.as_ref().and_then(|lock| lock.tasks.get(&record.key.task));
    if contents.plan.goal != plan.goal {
        Some("the earlier job asked its agents for something else")
    } else if !record.is_judged() {
        Some("the earlier one was not judged")
    } else if is_cut {
        Some("a budget ended the earlier one")
    } else if record.reused.is_some() {
        Some("the earlier one was itself taken from another job: name that job")
    } else if of_task.map(String::as_str) != Some(record.verifier_digest()) {
        Some("the earlier one was verified by other tests")
    } else {
        None
    }
}

/// Returns why no earlier result is taken for a trial.
fn explain_refusal(
    plan: &JobPlan,
    lock: &JobLock,
    key: &TrialKey,
    earlier: Option<&EarlierTrial<'_>>,
) -> String {
    let Some(earlier) = earlier else { return "no earlier job has ended it".to_owned() };
    if let Some(defect) = find_defect(plan, earlier) {
        return defect.to_owned();
    }
    let was = earlier.contents.plan.lock.as_ref();
    let differing = was.map(|was| was.find_identity_differences(lock, key));
    match differing.as_deref() {
        None => "the earlier job has no lock".to_owned(),
        Some([]) => "the earlier one is taken for another trial".to_owned(),
        Some(differing) => format!("not as it was: {}", differing.join("; ")),
    }
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
