//! How often at least one, and how often all, of k trials solve a task.
//!
//! With k = 1 both are the share of solved trials, and have its interval. For k above 1 the figures of tasks pile up at one
//! end: in pass^5 of a task that is solved 3 times in 10, most are 0.

use super::interval::estimate_mean;
use super::{Estimate, whole_to_f64};

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

    /// Returns 1 for each solved trial, and 0 for each other one.
    fn list_trials(self) -> Vec<f64> {
        (0..self.trials).map(|trial| if trial < self.solved { 1.0 } else { 0.0 }).collect()
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
    if k == 1 {
        let trials: Vec<Vec<f64>> = enough().map(|task| task.list_trials()).collect();
        return estimate_mean(&trials, level);
    }
    let values: Vec<[f64; 1]> = enough().filter_map(&value).map(|value| [value]).collect();
    let mut estimate = estimate_mean(&values, level)?;
    estimate.observations = enough().map(|task| task.trials).sum();
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
