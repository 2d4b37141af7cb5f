//! Two columns on the tasks of both.

use std::collections::BTreeMap;

use super::attempts::{Trial, collect_rewards, group_by_trial};
use super::types::Comparison;
use crate::statistics::count_to_f64;
use crate::statistics::paired::{TaskPair, compare_pairs};
use crate::trial::{Column, TrialRecord};

/// Compares a column of one job with a column of the same or another one, on the tasks that both have judged trials of.
///
/// Tasks are matched by name; `level` is the confidence level, such as 0.95. What [`find_changed_tasks`] finds is left
/// out.
#[must_use]
pub fn compare(
    baseline: (&Column, &[TrialRecord]),
    candidate: (&Column, &[TrialRecord]),
    level: f64,
) -> Comparison {
    compare_trials(
        baseline.0,
        &group_by_trial(baseline.1),
        candidate.0,
        &group_by_trial(candidate.1),
        level,
    )
}

/// Returns the names of tasks that two columns have in common but whose digests differ: another task by the same name.
#[must_use]
pub fn find_changed_tasks(
    baseline: (&Column, &[TrialRecord]),
    candidate: (&Column, &[TrialRecord]),
) -> Vec<String> {
    let (before, after) = (group_by_trial(baseline.1), group_by_trial(candidate.1));
    let (before, after) =
        (collect_digests(baseline.0, &before), collect_digests(candidate.0, &after));
    before
        .iter()
        .filter(|(task, digest)| after.get(*task).is_some_and(|after| after != *digest))
        .map(|(task, _)| (*task).to_owned())
        .collect()
}

/// Returns the rewards of two columns on each task that both have judged trials of, as [`compare`] does: what a pilot of
/// [`plan`](crate::statistics::plan::plan) is made from.
#[must_use]
pub fn pair_rewards(
    baseline: (&Column, &[TrialRecord]),
    candidate: (&Column, &[TrialRecord]),
) -> Vec<TaskPair> {
    pair_trials(baseline.0, &group_by_trial(baseline.1), candidate.0, &group_by_trial(candidate.1))
}

pub(super) fn compare_trials(
    baseline: &Column,
    before: &[Trial<'_>],
    candidate: &Column,
    after: &[Trial<'_>],
    level: f64,
) -> Comparison {
    let found = compare_pairs(&pair_trials(baseline, before, candidate, after), level);
    Comparison {
        baseline: baseline.clone(),
        candidate: candidate.clone(),
        tasks: found.tasks,
        difference: found.difference,
        p_value: found.p_value,
        holm_p_value: None,
        test: found.test.name().to_owned(),
        better: found.better,
        worse: found.worse,
    }
}

/// Corrects the probabilities of several comparisons by Holm's method: where there is no difference at all, the smallest of
/// them is below a level no more often than the level says.
pub(super) fn correct_comparisons(comparisons: &mut [Comparison]) {
    let mut known: Vec<(usize, f64)> = comparisons
        .iter()
        .enumerate()
        .filter_map(|(at, comparison)| Some((at, comparison.p_value?)))
        .collect();
    if known.len() < 2 {
        return;
    }
    known.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let mut largest = 0.0_f64;
    for (rank, (at, p)) in known.iter().enumerate() {
        largest = largest.max(p * count_to_f64(known.len() - rank)).min(1.0);
        if let Some(comparison) = comparisons.get_mut(*at) {
            comparison.holm_p_value = Some(largest);
        }
    }
}

fn pair_trials(
    baseline: &Column,
    before: &[Trial<'_>],
    candidate: &Column,
    after: &[Trial<'_>],
) -> Vec<TaskPair> {
    let (old, new) = (collect_digests(baseline, before), collect_digests(candidate, after));
    let mut candidates = collect_rewards(candidate, after);
    collect_rewards(baseline, before)
        .into_iter()
        .filter(|(task, _)| old.get(task.as_str()) == new.get(task.as_str()))
        .filter_map(|(task, baseline)| {
            Some(TaskPair { baseline, candidate: candidates.remove(&task)? })
        })
        .collect()
}

/// Returns the digest of each task; that of its last trial, should a job have more than one.
fn collect_digests<'a>(column: &Column, trials: &[Trial<'a>]) -> BTreeMap<&'a str, &'a str> {
    trials
        .iter()
        .filter(|trial| trial.key().column == *column)
        .map(|trial| (trial.key().task.as_str(), trial.last().verifier_digest()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_comparisons_are_corrected_by_holm() {
        let corrected = |values: &[Option<f64>]| {
            let column = Column { agent: "a".to_owned(), variant: None };
            let nothing = compare((&column, &[]), (&column, &[]), 0.95);
            let with = |p_value: &Option<f64>| Comparison { p_value: *p_value, ..nothing.clone() };
            let mut comparisons: Vec<Comparison> = values.iter().map(with).collect();
            correct_comparisons(&mut comparisons);
            comparisons.iter().map(|found| found.holm_p_value).collect::<Vec<_>>()
        };
        // As `p.adjust` of R has it: 3 × 0.01, 2 × 0.03, and no less than the one before.
        assert_eq!(
            corrected(&[Some(0.03), Some(0.01), None, Some(0.04)]),
            [Some(0.06), Some(0.03), None, Some(0.06)]
        );
        assert_eq!(corrected(&[Some(0.6), Some(0.9)]), [Some(1.0), Some(1.0)]);
        assert_eq!(corrected(&[Some(0.01), None]), [None, None]);
    }
}
