//! Where rewards vary: between the trials of a task, and between tasks.

use super::paired::TaskPair;
use super::{compute_mean, compute_variance, count_to_f64};

/// Variance of the rewards of one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnVariance {
    /// Between the trials of one task, mean over tasks.
    pub within: f64,
    /// Between the true mean rewards of tasks.
    pub between: f64,
}

impl ColumnVariance {
    /// Returns the variance of 0/1 rewards that are 1 with probability `solved` over all tasks.
    ///
    /// `task_share` says how much of it lies between tasks, from 0 (all tasks are equally hard) to 1 (each is always
    /// or never solved).
    #[must_use]
    pub fn from_prior(solved: f64, task_share: f64) -> Self {
        let total = solved * (1.0 - solved);
        Self { within: total * (1.0 - task_share), between: total * task_share }
    }

    /// Estimates it from the rewards of each task, by the method of moments; none without two tasks, or without a task
    /// of two trials.
    #[must_use]
    pub fn from_rewards<C: AsRef<[f64]>>(tasks: &[C]) -> Option<Self> {
        let tasks: Vec<&[f64]> =
            tasks.iter().map(AsRef::as_ref).filter(|task| !task.is_empty()).collect();
        let within = pool_variance(&tasks)?;
        let means: Vec<f64> = tasks.iter().filter_map(|task| compute_mean(task)).collect();
        let noise: Vec<f64> = tasks.iter().map(|task| within / count_to_f64(task.len())).collect();
        Some(Self { within, between: (compute_variance(&means)? - compute_mean(&noise)?).max(0.0) })
    }
}

/// Variance of the difference of two columns on the same tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifferenceVariance {
    /// Of the difference of one trial of each column on one task, mean over tasks.
    pub within: f64,
    /// Between the true differences of tasks.
    pub between: f64,
}

impl DifferenceVariance {
    /// Returns it for two columns of which each is solved or not on a task whatever the other does: columns that tasks are
    /// alike to differ less.
    #[must_use]
    pub fn from_independent(baseline: ColumnVariance, candidate: ColumnVariance) -> Self {
        Self {
            within: baseline.within + candidate.within,
            between: baseline.between + candidate.between,
        }
    }

    /// Returns the share of tasks on which single 0/1 trials of the two columns differ, if the second is better by
    /// `difference` in the mean.
    #[must_use]
    pub fn discordant_share(self, difference: f64) -> f64 {
        (self.within + self.between + difference * difference).max(difference).min(1.0)
    }

    /// Estimates it from two columns, by the method of moments; none without two tasks that both have rewards for, or
    /// if one column has no task of two trials.
    #[must_use]
    pub fn from_pairs(pairs: &[TaskPair]) -> Option<Self> {
        let pairs: Vec<&TaskPair> = pairs
            .iter()
            .filter(|pair| !pair.baseline.is_empty() && !pair.candidate.is_empty())
            .collect();
        let baseline =
            pool_variance(&pairs.iter().map(|pair| pair.baseline.as_slice()).collect::<Vec<_>>())?;
        let candidate =
            pool_variance(&pairs.iter().map(|pair| pair.candidate.as_slice()).collect::<Vec<_>>())?;
        let (mut differences, mut noise) = (Vec::new(), Vec::new());
        for pair in pairs {
            differences.push(compute_mean(&pair.candidate)? - compute_mean(&pair.baseline)?);
            noise.push(
                baseline / count_to_f64(pair.baseline.len())
                    + candidate / count_to_f64(pair.candidate.len()),
            );
        }
        let between = (compute_variance(&differences)? - compute_mean(&noise)?).max(0.0);
        Some(Self { within: baseline + candidate, between })
    }

    /// Returns the variance of the mean difference over `tasks` tasks with `trials` trials in each column.
    #[must_use]
    pub fn compute_mean_variance(self, tasks: f64, trials: f64) -> f64 {
        (self.between + self.within / trials) / tasks
    }
}

/// Returns the variance within clusters, each weighted by its degrees of freedom; none if no cluster has two values.
fn pool_variance(clusters: &[&[f64]]) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for cluster in clusters {
        if let Some(variance) = compute_variance(cluster) {
            let weight = count_to_f64(cluster.len()) - 1.0;
            squares += variance * weight;
            freedom += weight;
        }
    }
    (freedom > 0.0).then(|| squares / freedom)
}
