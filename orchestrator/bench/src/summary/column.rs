//! A column in figures.

use std::collections::{BTreeMap, BTreeSet};

use super::attempts::{Spending, Trial};
use super::planned::{PlannedColumn, PlannedTask};
use super::types::{ColumnSummary, TaskSummary};
use super::{SummaryOptions, loop_figures};
use crate::statistics::bootstrap::{BootstrapOptions, bootstrap_clusters};
use crate::statistics::interval::estimate_mean;
use crate::statistics::passes::{Passes, estimate_pass_at, estimate_pass_hat};
use crate::statistics::{Estimate, compute_mean, whole_to_f64};
use crate::trial::{Cause, CheatKind, TrialRecord};

const CHEAT_KINDS: [CheatKind; 4] = [
    CheatKind::WroteReward,
    CheatKind::EditedTests,
    CheatKind::DeletedTests,
    CheatKind::ReachedForSolution,
];

/// A task of the column with its trials.
struct Cell<'a> {
    planned: &'a PlannedTask,
    trials: Vec<&'a Trial<'a>>,
    is_cheatable: bool,
}

impl Cell<'_> {
    fn rewards(&self) -> Vec<f64> {
        self.trials.iter().filter_map(|trial| trial.last().reward()).collect()
    }

    fn passes(&self) -> Passes {
        Passes {
            trials: count(&self.trials, TrialRecord::is_judged),
            solved: count(&self.trials, TrialRecord::is_solved),
        }
    }
}

/// Sums a column up. `trials` may hold those of other columns too.
pub(super) fn summarize(
    planned: &PlannedColumn,
    trials: &[Trial<'_>],
    cheatable: &BTreeSet<String>,
    options: &SummaryOptions,
) -> ColumnSummary {
    let mine: Vec<&Trial<'_>> =
        trials.iter().filter(|trial| trial.key().column == planned.column).collect();
    let cells = collect_cells(planned, &mine, cheatable);
    let spending = Spending::from_trials(&mine);
    let passes: Vec<Passes> = cells.iter().map(Cell::passes).collect();
    let ks = choose_pass_ks(&passes, options);
    let score = estimate_score(&cells, |_| true, options.level);
    let estimate_passes = |estimate: fn(&[Passes], u64, f64) -> Option<Estimate>| {
        let estimates =
            ks.iter().map(|k| Some((*k, estimate(&passes, u64::from(*k), options.level)?)));
        estimates.flatten().collect()
    };
    let models =
        mine.iter().flat_map(|trial| trial.attempts()).filter_map(|record| record.model.clone());
    let solved: u64 = passes.iter().map(|task| task.solved).sum();
    ColumnSummary {
        column: planned.column.clone(),
        models: models.collect::<BTreeSet<_>>().into_iter().collect(),
        planned: planned.tasks.iter().map(|task| task.trials).sum(),
        ended: count(&mine, |record| !record.is_cancelled()),
        judged: passes.iter().map(|task| task.trials).sum(),
        solved,
        retries: mine.iter().map(|trial| trial.count_retries()).sum(),
        score,
        score_without_cheatable: estimate_score(&cells, |cell| !cell.is_cheatable, options.level),
        pass_at: estimate_passes(estimate_pass_at),
        pass_hat: estimate_passes(estimate_pass_hat),
        faults: count_faults(&mine),
        fault_kinds: count_fault_kinds(&mine),
        cost_usd: spending.dollars(),
        cost_unknown: spending.unknown,
        cost_estimated: spending.is_estimated,
        cost_per_solved_usd: (solved > 0 && spending.known > 0)
            .then(|| spending.cost.dollars() / whole_to_f64(solved)),
        cost_per_solved_interval: bootstrap_cost_per_solved(&cells, &spending, options),
        tokens: spending.tokens,
        median_run_ms: find_median_run(&mine),
        loop_figures: loop_figures::compute(&mine),
        tasks: cells.iter().map(summarize_task).collect(),
        cheating: count_cheating(&mine),
    }
}

fn collect_cells<'a>(
    planned: &'a PlannedColumn,
    trials: &[&'a Trial<'a>],
    cheatable: &BTreeSet<String>,
) -> Vec<Cell<'a>> {
    let mut by_task: BTreeMap<&str, Vec<&'a Trial<'a>>> = BTreeMap::new();
    for trial in trials {
        by_task.entry(&trial.key().task).or_default().push(trial);
    }
    planned
        .tasks
        .iter()
        .map(|task| Cell {
            planned: task,
            // Taken out, so that a task that is planned twice does not count twice.
            trials: by_task.remove(task.task.as_str()).unwrap_or_default(),
            is_cheatable: cheatable.contains(&task.task),
        })
        .collect()
}

fn summarize_task(cell: &Cell<'_>) -> TaskSummary {
    let Passes { trials, solved } = cell.passes();
    TaskSummary {
        task: cell.planned.task.clone(),
        planned: cell.planned.trials,
        judged: trials,
        solved,
        mean_reward: compute_mean(&cell.rewards()),
        cost_usd: Spending::from_trials(&cell.trials).dollars(),
        faults: count_faults(&cell.trials),
        is_cheatable: cell.is_cheatable,
    }
}

fn estimate_score(
    cells: &[Cell<'_>],
    is_counted: impl Fn(&Cell<'_>) -> bool,
    level: f64,
) -> Option<Estimate> {
    let rewards: Vec<Vec<f64>> =
        cells.iter().filter(|cell| is_counted(cell)).map(Cell::rewards).collect();
    estimate_mean(&rewards, level)
}

/// Returns the k for which passes are estimated.
fn choose_pass_ks(passes: &[Passes], options: &SummaryOptions) -> BTreeSet<u32> {
    let judged = || passes.iter().map(|task| task.trials).filter(|trials| *trials > 0);
    let (Some(least), Some(most)) = (judged().min(), judged().max()) else {
        return BTreeSet::new();
    };
    if let Some(ks) = &options.pass_ks {
        return ks.iter().copied().filter(|k| *k > 0 && u64::from(*k) <= most).collect();
    }
    let least = u32::try_from(least).unwrap_or(u32::MAX);
    let steps = (1..=8).flat_map(|power| [1, 2, 5].map(|first| first * 10_u32.pow(power)));
    (1..=9).chain(steps).filter(|k| *k < least).chain([least]).collect()
}

/// Returns the interval of the cost for each solved trial: a ratio, whose parts vary together.
fn bootstrap_cost_per_solved(
    cells: &[Cell<'_>],
    spending: &Spending,
    options: &SummaryOptions,
) -> Option<(f64, f64)> {
    if spending.known == 0 {
        return None;
    }
    let tasks: Vec<(f64, f64)> = cells
        .iter()
        .filter(|cell| !cell.trials.is_empty())
        .map(|cell| {
            let cost = Spending::from_trials(&cell.trials).cost.dollars();
            (cost, whole_to_f64(cell.passes().solved))
        })
        .collect();
    let drawing = BootstrapOptions {
        level: options.level,
        seed: options.seed,
        ..BootstrapOptions::default()
    };
    let interval = bootstrap_clusters(&tasks, drawing, |sample| {
        let (cost, solved) =
            sample.iter().fold((0.0, 0.0), |(cost, solved), task| (cost + task.0, solved + task.1));
        if solved > 0.0 { cost / solved } else { f64::INFINITY }
    })?;
    interval.high.is_finite().then_some((interval.low, interval.high))
}

fn count(trials: &[&Trial<'_>], is_counted: impl Fn(&TrialRecord) -> bool) -> u64 {
    u64::try_from(trials.iter().filter(|trial| is_counted(trial.last())).count())
        .unwrap_or(u64::MAX)
}

fn count_faults(trials: &[&Trial<'_>]) -> BTreeMap<Cause, u64> {
    let mut faults = BTreeMap::new();
    for fault in trials.iter().filter_map(|trial| trial.last().fault.as_ref()) {
        *faults.entry(fault.cause).or_default() += 1;
    }
    faults
}

fn count_fault_kinds(trials: &[&Trial<'_>]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for fault in trials.iter().filter_map(|trial| trial.last().fault.as_ref()) {
        *kinds.entry(fault.kind.clone()).or_default() += 1;
    }
    kinds
}

fn count_cheating(trials: &[&Trial<'_>]) -> BTreeMap<CheatKind, u64> {
    let mut kinds = BTreeMap::new();
    for kind in CHEAT_KINDS {
        let with_it = trials.iter().filter(|trial| trial.has_cheated_by(kind)).count();
        if with_it > 0 {
            kinds.insert(kind, u64::try_from(with_it).unwrap_or(u64::MAX));
        }
    }
    kinds
}

fn find_median_run(trials: &[&Trial<'_>]) -> Option<u64> {
    let mut times: Vec<u64> = trials
        .iter()
        .map(|trial| trial.last())
        .filter(|record| record.is_judged())
        .map(|record| record.durations.run_ms)
        .collect();
    times.sort_unstable();
    let upper = times.get(times.len() / 2).copied()?;
    if times.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = times.get((times.len() / 2).checked_sub(1)?).copied()?;
    Some(lower.midpoint(upper))
}
