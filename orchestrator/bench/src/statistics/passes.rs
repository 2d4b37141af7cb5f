//! How often at least one, and how often all, of k trials solve a task.
//!
//! For k above 1 the figures of tasks pile up at one end: in pass^5 of a task that is solved 3 times in 10, most are 0.
//! Where fewer than five of them, as a sum, are away from that end, Student's interval is too short by far
//! (it covered the truth in 70 of 100 simulations instead of 95). There the interval is Wilson's of one
//! observation for each task, than which no figure between 0 and 1 varies more: wider than need be, but not wrong.

use super::interval::{estimate_mean, wilson_interval};
use super::{Estimate, count_to_f64, whole_to_f64};

/// Tasks, as the sum of their figures, from which on the mean is taken to be normal.
const ENOUGH_TASKS: f64 = 5.0;

/// How often a task was solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Trials whose work was judged.
    pub trials: u64,
    /// Trials with full reward, at most all.
    pub solved: u64,
}

impl Passes {
    /// Returns the unbiased estimate 1 − C(n−c, k) / C(n, k) that at least one of k trials solves the task.
    ///
    /// None for k = 0 and for more than there are trials.
    #[must_use]
    pub fn pass_at(self, k: u64) -> Option<f64> {
        let failed = self.trials.checked_sub(self.solved)?;
        choose_share(failed, self.trials, k).map(|none| 1.0 - none)
    }

    /// Returns the unbiased estimate C(c, k) / C(n, k) that all of k trials solve the task.
    ///
    /// None for k = 0 and for more than there are trials.
    #[must_use]
    pub fn pass_hat(self, k: u64) -> Option<f64> {
        choose_share(self.solved, self.trials, k)
    }
}

/// Returns the mean of pass@k over the tasks that have k trials, clustered by task; none if no task has.
///
/// `level` is the confidence level, such as 0.95.
#[must_use]
pub fn estimate_pass_at(tasks: &[Passes], k: u64, level: f64) -> Option<Estimate> {
    estimate(tasks, k, level, |task| task.pass_at(k))
}

/// Returns the mean of pass^k over the tasks that have k trials, clustered by task; none if no task has.
///
/// `level` is the confidence level, such as 0.95.
#[must_use]
pub fn estimate_pass_hat(tasks: &[Passes], k: u64, level: f64) -> Option<Estimate> {
    estimate(tasks, k, level, |task| task.pass_hat(k))
}

fn estimate(
    tasks: &[Passes],
    k: u64,
    level: f64,
    value: impl Fn(&Passes) -> Option<f64>,
) -> Option<Estimate> {
    let enough = || tasks.iter().filter(|task| task.trials >= k);
    let values: Vec<[f64; 1]> = enough().filter_map(&value).map(|value| [value]).collect();
    let mut estimate = estimate_mean(&values, level)?;
    estimate.observations = enough().map(|task| task.trials).sum();
    let count = count_to_f64(values.len());
    let from_end = count * estimate.value.min(1.0 - estimate.value);
    if k > 1 && values.len() > 1 && from_end < ENOUGH_TASKS {
        let (low, high) = wilson_interval(estimate.value * count, count, level)?;
        (estimate.low, estimate.high) = (Some(low), Some(high));
    }
    Some(estimate)
}

/// Returns C(m, k) / C(n, k) for m ≤ n: the probability that k of n, drawn without putting back, are all among m.
///
/// A product of factors between 0 and 1: no binomial coefficient is computed, which would overflow, and no
/// logarithm, which would cancel.
fn choose_share(m: u64, n: u64, k: u64) -> Option<f64> {
    if k == 0 || k > n || m > n {
        return None;
    }
    if k > m {
        return Some(0.0);
    }
    // C(m, k) / C(n, k) = C(n−k, n−m) / C(n, n−m): whichever has fewer factors.
    let (top, factors) = if k <= n - m { (m, k) } else { (n - k, n - m) };
    Some((0..factors).map(|i| whole_to_f64(top - i) / whole_to_f64(n - i)).product())
}
