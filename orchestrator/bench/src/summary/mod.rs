//! What a job found, in figures: every report shows these and no others.

mod attempts;
mod column;
mod comparison;
mod controls;
mod loop_figures;
mod machines;
mod planned;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use crate::trial::{Column, TrialKey, TrialRecord};

pub use comparison::{compare, find_changed_tasks, pair_rewards};
pub use controls::BrokenTasks;
pub use planned::{PlannedColumn, PlannedJob, PlannedTask};
pub use types::{ColumnSummary, Comparison, JobSummary, LoopFigures, TaskSummary, UsedMachine};

use attempts::{Trial, group_by_trial};

/// How a job is summed up.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryOptions {
    /// The confidence level of all intervals. Default: 0.95.
    pub level: f64,
    /// The k of pass@k and pass^k; those for which no task has enough trials are left out. None, the default, for 1 to
    /// 10, then 20, 50, 100, 200 and so on, as far as every judged task has trials, and for all those trials.
    pub pass_ks: Option<BTreeSet<u32>>,
    /// What the intervals that are drawn depend on. Default: 0.
    pub seed: u64,
    /// Tasks that were shown to be cheatable elsewhere than in the job's own trials.
    pub cheatable: BTreeSet<String>,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self { level: 0.95, pass_ks: None, seed: 0, cheatable: BTreeSet::new() }
    }
}

/// Sums a job up.
///
/// `records` has all attempts in any order. All of them count for money, tokens and cheating; the last one of each trial
/// for everything else. A record that is given twice (the same trial and attempt) counts once, the later one. Columns and
/// tasks that only records know follow those of the plan, so that nothing that was paid for is left out.
#[must_use]
pub fn summarize(
    job: &str,
    planned: &PlannedJob,
    records: &[TrialRecord],
    options: &SummaryOptions,
) -> JobSummary {
    let trials = group_by_trial(records);
    let planned = planned.with_trials(&trials);
    let mut cheatable = options.cheatable.clone();
    cheatable.extend(
        trials.iter().filter(|trial| trial.has_cheated()).map(|trial| trial.key().task.clone()),
    );
    let columns: Vec<ColumnSummary> = planned
        .columns
        .iter()
        .map(|column| column::summarize(column, &trials, &cheatable, options))
        .collect();
    let mut comparisons: Vec<Comparison> = match planned.columns.split_first() {
        None => Vec::new(),
        Some((baseline, others)) => others
            .iter()
            .map(|candidate| {
                comparison::compare_trials(
                    &baseline.column,
                    &trials,
                    &candidate.column,
                    &trials,
                    options.level,
                )
            })
            .collect(),
    };
    comparison::correct_comparisons(&mut comparisons);
    let machines = machines::collect(&trials);
    JobSummary {
        job: job.to_owned(),
        planned: columns.iter().map(|column| column.planned).sum(),
        level: options.level,
        comparisons,
        warnings: columns
            .iter()
            .filter_map(describe_coverage)
            .chain(BrokenTasks::from_trials(&trials).describe())
            .chain(machines::describe_different(&columns, &machines))
            .chain(collect_warnings(records, &trials))
            .collect(),
        machines,
        columns,
    }
}

/// Returns the rewards of each task of a column, of judged trials in their order. Tasks without any are missing.
#[must_use]
pub fn collect_rewards(column: &Column, records: &[TrialRecord]) -> BTreeMap<String, Vec<f64>> {
    attempts::collect_rewards(column, &group_by_trial(records))
}

/// Returns the same of complete rounds: up to the last trial number that all tasks with so many planned trials have
/// reached. What a [`StopRule`](crate::statistics::sequential::StopRule) is applied to: of trials that have ended
/// first, those that fail quickly are too many. `ended` has the reward of each trial that ended, none where it was not
/// judged.
#[must_use]
pub fn collect_complete_rounds(
    planned: &PlannedColumn,
    ended: &BTreeMap<TrialKey, Option<f64>>,
) -> BTreeMap<String, Vec<f64>> {
    let mut trials: BTreeMap<(&str, u64), Option<f64>> = BTreeMap::new();
    for (key, reward) in ended.iter().filter(|(key, _)| key.column == planned.column) {
        trials.insert((key.task.as_str(), u64::from(key.trial)), *reward);
    }
    let missing = planned.tasks.iter().filter_map(|task| {
        (1..=task.trials).find(|trial| !trials.contains_key(&(task.task.as_str(), *trial)))
    });
    let first_missing = missing.min().unwrap_or(u64::MAX);
    let mut rewards: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for ((task, _), reward) in trials.iter().filter(|((_, trial), _)| *trial < first_missing) {
        if let Some(reward) = reward {
            rewards.entry((*task).to_owned()).or_default().push(*reward);
        }
    }
    rewards
}

/// Says what a score could be if all trials had been judged, where not all were.
fn describe_coverage(column: &ColumnSummary) -> Option<String> {
    let (low, high) = column.bound_score().filter(|_| column.score.is_some())?;
    Some(format!(
        "{}: {} of {} trials were judged; the score would be {:.1} % if all others had the reward 0, and {:.1} % if they had 1",
        column.column,
        column.judged,
        column.planned,
        low * 100.0,
        high * 100.0
    ))
}

/// Tasks that a warning names.
const NAMED_TASKS: usize = 3;

/// Returns each warning once, in the order of the trials, with the tasks that it is about.
fn collect_warnings(records: &[TrialRecord], trials: &[Trial<'_>]) -> Vec<String> {
    let mut records: Vec<&TrialRecord> = records.iter().collect();
    records.sort_by(|a, b| (a.started, &a.key, a.attempt).cmp(&(b.started, &b.key, b.attempt)));
    let mut order = Vec::new();
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for record in &records {
        for warning in &record.warnings {
            let tasks = found.entry(warning).or_insert_with(|| {
                order.push(warning.as_str());
                Vec::new()
            });
            if !tasks.contains(&record.key.task.as_str()) {
                tasks.push(&record.key.task);
            }
        }
    }
    let line = |warning: &&str| {
        let tasks = found.get(warning).map(Vec::as_slice).unwrap_or_default();
        let named: Vec<&str> = tasks.iter().take(NAMED_TASKS).copied().collect();
        let more = match tasks.len().saturating_sub(NAMED_TASKS) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!("{warning} ({}{more})", named.join(", "))
    };
    let mut warnings: Vec<String> = order.iter().map(line).collect();
    warnings.extend(describe_regrading(&records));
    warnings.extend(describe_mixed_verifiers(trials));
    warnings
}

/// Says of which tasks only some trials could be verified again after the task had changed: what is left is of other
/// tests, and often not by chance, as where the work of solved trials is not kept.
fn describe_mixed_verifiers(trials: &[Trial<'_>]) -> Vec<String> {
    let mut by_task: BTreeMap<&str, Vec<&TrialRecord>> = BTreeMap::new();
    for record in trials.iter().map(Trial::last).filter(|record| record.is_judged()) {
        by_task.entry(&record.key.task).or_default().push(record);
    }
    let describe = |(task, records): (&str, Vec<&TrialRecord>)| {
        let regradings = records.iter().filter_map(|record| record.regraded.as_ref());
        let newest = &regradings.max_by_key(|regraded| regraded.time)?.task_digest;
        let is_of_others = |record: &&&TrialRecord| record.verifier_digest() != newest;
        let others = records.iter().filter(is_of_others).count();
        (others > 0).then(|| {
            format!(
                "{others} of {} trials were not verified again by the tests as they are now: their rewards and \
                 those of the others are of different tests ({task})",
                records.len()
            )
        })
    };
    by_task.into_iter().filter_map(describe).collect()
}

/// Says how many results are of a repeated verification, if any are.
fn describe_regrading(records: &[&TrialRecord]) -> Option<String> {
    let regraded = |record: &&&TrialRecord| record.regraded.is_some();
    let changed = |record: &&&TrialRecord| {
        record.regraded.as_ref().is_some_and(|earlier| earlier.first_rewards != record.rewards)
    };
    let all = records.iter().filter(regraded).count();
    let other = records.iter().filter(changed).count();
    (all > 0).then(|| format!("verified again after the trial: {all}, of which {other} changed"))
}
