//! Two columns on the same tasks.

use serde::{Deserialize, Serialize};

use super::distribution::{fair_coin_at_most, student_tail};
use super::interval::{compute_standard_error, is_zero_or_one, student_interval, wilson_interval};
use super::{Estimate, compute_mean, count_to_f64};

/// The rewards of two columns on one task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPair {
    /// Rewards of the column that is compared with, one for each judged trial.
    pub baseline: Vec<f64>,
    /// Rewards of the column that is compared.
    pub candidate: Vec<f64>,
}

/// The test that a probability is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairedTest {
    /// Student's t of the differences of tasks.
    PairedT,
    /// McNemar's, exact: one 0/1 trial per task in both columns.
    #[serde(rename = "mcnemar")]
    McNemar,
    /// The signs of the differences, exact: all differences are the same, so that t has nothing to divide by.
    Sign,
}

impl PairedTest {
    /// Returns the test's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PairedT => "paired t",
            Self::McNemar => "McNemar, exact",
            Self::Sign => "sign test, exact",
        }
    }
}

/// Two columns on the tasks that both have rewards for.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedDifference {
    /// Tasks with rewards in both.
    pub tasks: u64,
    /// Mean over tasks of candidate minus baseline; none without such tasks.
    pub difference: Option<Estimate>,
    /// Probability of such a difference if there is none, two-sided.
    pub p_value: Option<f64>,
    /// The test that `p_value` is of.
    pub test: PairedTest,
    /// Tasks on which the candidate is better.
    pub better: u64,
    /// Tasks on which it is worse.
    pub worse: u64,
}

/// Compares two columns by the differences of their mean rewards on each task.
///
/// Tasks without rewards in one of them are left out. The interval is Student's with one degree of freedom fewer than
/// tasks; where all differences are the same it is Wilson's, scaled to −1 to 1, if no reward is outside of 0 to 1.
/// `level` is the confidence level, such as 0.95.
#[must_use]
pub fn compare_pairs(pairs: &[TaskPair], level: f64) -> PairedDifference {
    let pairs: Vec<&TaskPair> = pairs
        .iter()
        .filter(|pair| !pair.baseline.is_empty() && !pair.candidate.is_empty())
        .collect();
    let differences: Vec<f64> = pairs
        .iter()
        .filter_map(|pair| Some(compute_mean(&pair.candidate)? - compute_mean(&pair.baseline)?))
        .map(drop_rounding)
        .collect();
    let better = count(&differences, |difference| difference > 0.0);
    let worse = count(&differences, |difference| difference < 0.0);
    let rewards = || pairs.iter().flat_map(|pair| pair.baseline.iter().chain(&pair.candidate));
    let has_single_trials =
        pairs.iter().all(|pair| pair.baseline.len() == 1 && pair.candidate.len() == 1);
    let is_bounded = rewards().all(|reward| (0.0..=1.0).contains(reward));
    let difference = estimate_difference(&differences, rewards().count(), is_bounded, level);
    let (test, p_value) = match difference.and_then(|difference| difference.standard_error) {
        _ if differences.is_empty() => (PairedTest::PairedT, None),
        _ if has_single_trials && rewards().all(|reward| is_zero_or_one(*reward)) => {
            (PairedTest::McNemar, Some(compute_sign_p(better, worse)))
        }
        Some(error) if error > 0.0 => {
            let t = difference.map_or(0.0, |difference| difference.value / error);
            let freedom = count_to_f64(differences.len()) - 1.0;
            (PairedTest::PairedT, Some((2.0 * student_tail(t.abs(), freedom)).min(1.0)))
        }
        Some(_) => (PairedTest::Sign, Some(compute_sign_p(better, worse))),
        None => (PairedTest::PairedT, None),
    };
    let tasks = u64::try_from(differences.len()).unwrap_or(u64::MAX);
    PairedDifference { tasks, difference, p_value, test, better, worse }
}

/// Returns the two-sided probability of so uneven signs if both were equally likely; 1 without any.
#[must_use]
pub fn compute_sign_p(better: u64, worse: u64) -> f64 {
    (2.0 * fair_coin_at_most(better.min(worse), better.saturating_add(worse))).min(1.0)
}

fn estimate_difference(
    differences: &[f64],
    observations: usize,
    is_bounded: bool,
    level: f64,
) -> Option<Estimate> {
    let value = compute_mean(differences).filter(|value| value.is_finite())?;
    let standard_error = compute_standard_error(differences);
    let interval = match standard_error {
        Some(error) if error > 0.0 => {
            let range = is_bounded.then_some((-1.0, 1.0));
            student_interval(value, error, differences.len(), range, level)
        }
        Some(_) if is_bounded => {
            let count = count_to_f64(differences.len());
            wilson_interval(f64::midpoint(value, 1.0) * count, count, level)
                .map(|(low, high)| (2.0 * low - 1.0, 2.0 * high - 1.0))
        }
        _ => None,
    };
    Some(Estimate {
        value,
        standard_error,
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
        observations: u64::try_from(observations).unwrap_or(u64::MAX),
    })
}

/// Returns zero for a difference that only the rounding of two means makes.
fn drop_rounding(difference: f64) -> f64 {
    if difference.abs() < 1e-12 { 0.0 } else { difference }
}

fn count(differences: &[f64], is_counted: impl Fn(f64) -> bool) -> u64 {
    u64::try_from(differences.iter().filter(|difference| is_counted(**difference)).count())
        .unwrap_or(u64::MAX)
}
