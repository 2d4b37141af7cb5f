//! How many trials it takes to see a difference between two columns.

use serde::{Deserialize, Serialize};

use super::distribution::t_test_power;
use super::mcnemar::mcnemar_power;
use super::paired::PairedTest;
use super::variance::DifferenceVariance;
use super::whole_to_f64;

/// Trials per task for which [`Plan::with_more_tasks`] says how many tasks it takes.
const TRIALS_WITH_MORE_TASKS: [u32; 5] = [1, 2, 3, 5, 10];
/// More tasks than anybody has.
const MAX_TASKS: u64 = 1_000_000;

/// What is to be planned: a comparison of two columns on the same tasks, two-sided, by the test that
/// [`compare_pairs`](super::paired::compare_pairs) takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanRequest {
    /// The smallest difference of the mean rewards that is to be found, such as 0.05.
    pub detect: f64,
    /// The probability to find a difference where there is none, such as 0.05.
    pub significance: f64,
    /// The probability to find a difference as large as `detect`, such as 0.8.
    pub power: f64,
    /// Tasks that there are, at least two.
    pub tasks: u64,
    /// The most trials per task and column that are considered, such as 100.
    pub max_trials: u32,
    /// How the difference varies.
    pub variance: DifferenceVariance,
    /// The test of one trial for each task: McNemar's where rewards are 0 or 1.
    pub single_trials: PairedTest,
    /// Mean cost of a trial, over both columns, in US dollars, if it is known.
    pub cost_per_trial_usd: Option<f64>,
}

/// A size of a job, and what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedSize {
    /// Tasks.
    pub tasks: u64,
    /// Trials per task and column.
    pub trials_per_task: u32,
    /// Trials of both columns together.
    pub trials: u64,
    /// The probability to find a difference as large as asked for.
    pub power: f64,
    /// The test that finds it.
    pub test: PairedTest,
    /// Cost of all trials in US dollars, if that of one is known.
    pub cost_usd: Option<f64>,
}

/// How large a job has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The fewest trials on the tasks that there are; none where no number up to the most allowed suffices.
    pub with_these_tasks: Option<PlannedSize>,
    /// The smallest difference that the tasks that there are can show with the most trials allowed; none if no difference is
    /// large enough.
    pub smallest_detectable: Option<f64>,
    /// The share of tasks on which single trials of the two columns are taken to differ, where that test is McNemar's.
    pub discordant_share: Option<f64>,
    /// The fewest tasks for few trials each. Without what even a million tasks cannot show.
    pub with_more_tasks: Vec<PlannedSize>,
}

/// Why nothing can be planned.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The difference is not above zero, or not a number.
    #[error("the difference to detect is {0}; expected one above 0, such as 0.05")]
    Detect(f64),
    /// A probability is not between 0 and 1.
    #[error("{name} is {value}; expected a probability between 0 and 1, such as {example}")]
    Probability {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it could be.
        example: f64,
    },
    /// Fewer than two tasks.
    #[error("{0} tasks cannot show how much tasks differ; give at least 2")]
    Tasks(u64),
    /// No trial is allowed.
    #[error("at most 0 trials per task are allowed; allow at least 1")]
    Trials,
    /// Nothing varies, or the variance is not a number.
    #[error(
        "rewards do not vary in what the plan is made from; run a larger pilot or give a prior"
    )]
    Variance,
}

/// Returns how many trials per task, or how many tasks, find a difference with the power asked for.
///
/// # Errors
/// If a figure of the request is out of its bounds, or nothing varies.
pub fn plan(request: &PlanRequest) -> Result<Plan, PlanError> {
    check(request)?;
    let trials = find_least(u64::from(request.max_trials), 1, |trials| {
        power(request, request.tasks, trials) >= request.power
    });
    let with_more_tasks = TRIALS_WITH_MORE_TASKS
        .iter()
        .filter_map(|trials| {
            let trials = u64::from(*trials);
            let tasks =
                find_least(MAX_TASKS, 2, |tasks| power(request, tasks, trials) >= request.power)?;
            size(request, tasks, trials)
        })
        .collect();
    Ok(Plan {
        with_these_tasks: trials.and_then(|trials| size(request, request.tasks, trials)),
        smallest_detectable: find_smallest_detectable(request),
        discordant_share: (request.single_trials == PairedTest::McNemar)
            .then(|| request.variance.discordant_share(request.detect)),
        with_more_tasks,
    })
}

fn check(request: &PlanRequest) -> Result<(), PlanError> {
    if !(request.detect > 0.0 && request.detect.is_finite()) {
        return Err(PlanError::Detect(request.detect));
    }
    let probabilities =
        [("the significance", request.significance, 0.05), ("the power", request.power, 0.8)];
    for (name, value, example) in probabilities {
        if !(value > 0.0 && value < 1.0) {
            return Err(PlanError::Probability { name, value, example });
        }
    }
    if request.tasks < 2 {
        return Err(PlanError::Tasks(request.tasks));
    }
    if request.max_trials == 0 {
        return Err(PlanError::Trials);
    }
    let DifferenceVariance { within, between } = request.variance;
    let is_usable = within >= 0.0 && between >= 0.0 && within + between > 0.0;
    if is_usable && (within + between).is_finite() { Ok(()) } else { Err(PlanError::Variance) }
}

fn power(request: &PlanRequest, tasks: u64, trials: u64) -> f64 {
    power_to_detect(request, request.detect, tasks, trials)
}

/// Returns the test that a comparison of so many trials for each task takes.
fn test_of(request: &PlanRequest, trials: u64) -> PairedTest {
    if trials == 1 { request.single_trials } else { PairedTest::PairedT }
}

fn power_to_detect(request: &PlanRequest, detect: f64, tasks: u64, trials: u64) -> f64 {
    if test_of(request, trials) == PairedTest::McNemar {
        let discordant = request.variance.discordant_share(detect);
        let (better, worse) = (f64::midpoint(discordant, detect), (discordant - detect) / 2.0);
        return mcnemar_power(tasks, better, worse.max(0.0), request.significance);
    }
    let tasks = whole_to_f64(tasks);
    let variance = request.variance.compute_mean_variance(tasks, whole_to_f64(trials));
    if variance <= 0.0 {
        return 1.0;
    }
    t_test_power(detect / variance.sqrt(), tasks - 1.0, request.significance)
}

fn size(request: &PlanRequest, tasks: u64, trials: u64) -> Option<PlannedSize> {
    let all = tasks.checked_mul(trials)?.checked_mul(2)?;
    Some(PlannedSize {
        tasks,
        trials_per_task: u32::try_from(trials).ok()?,
        trials: all,
        power: power(request, tasks, trials),
        test: test_of(request, trials),
        cost_usd: request.cost_per_trial_usd.map(|cost| cost * whole_to_f64(all)),
    })
}

/// Returns the least number from `first` to `last` that is enough, if every greater one is enough then.
fn find_least(last: u64, first: u64, is_enough: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (first, first);
    while !is_enough(high) {
        if high >= last {
            return None;
        }
        low = high + 1;
        high = high.saturating_mul(2).min(last);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

fn find_smallest_detectable(request: &PlanRequest) -> Option<f64> {
    let trials = u64::from(request.max_trials);
    let is_enough =
        |detect: f64| power_to_detect(request, detect, request.tasks, trials) >= request.power;
    let (mut low, mut high) = (0.0, 1.0);
    // Of rewards that are 0 or 1 no difference is larger.
    if test_of(request, trials) == PairedTest::McNemar && !is_enough(high) {
        return None;
    }
    while !is_enough(high) && high < f64::MAX / 4.0 {
        low = high;
        high *= 2.0;
    }
    // Power only grows with the difference.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}
