//! Estimates and tests. All are deterministic: what draws is given a seed.

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
