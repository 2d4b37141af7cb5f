//! Estimates and tests. All are deterministic: what draws is given a seed.
//!
//! Tasks are the clusters: trials of one task resemble each other, so the number of tasks, not the number of
//! trials, says how certain a figure is. What is estimated is the mean over the tasks that the job's own are a
//! sample of, and each task weighs the same, however many of its trials were judged.

pub mod bootstrap;
pub mod distribution;
pub mod interval;
pub mod mcnemar;
pub mod paired;
pub mod passes;
pub mod plan;
pub mod random;
pub mod sequential;
pub mod variance;

use serde::{Deserialize, Serialize};

/// A value with how certain it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Its standard error; none where one cluster or one observation leaves nothing to compute it from.
    pub standard_error: Option<f64>,
    /// The lower end of the confidence interval.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Observations that it is computed from.
    pub observations: u64,
}

/// Returns the nearest floating point number of a count.
pub(crate) fn count_to_f64(count: usize) -> f64 {
    // Exact below 2^53, which is more than fits in memory.
    #[allow(clippy::cast_precision_loss)]
    let count = count as f64;
    count
}

/// Returns the nearest floating point number of a count.
pub(crate) fn whole_to_f64(count: u64) -> f64 {
    // Exact below 2^53.
    #[allow(clippy::cast_precision_loss)]
    let count = count as f64;
    count
}

/// Returns the mean; none of nothing.
pub(crate) fn compute_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count_to_f64(values.len()))
}

/// Returns the unbiased variance; none of fewer than two values.
pub(crate) fn compute_variance(values: &[f64]) -> Option<f64> {
    let mean = compute_mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (count_to_f64(values.len()) - 1.0))
}
