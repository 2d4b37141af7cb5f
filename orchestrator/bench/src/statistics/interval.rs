//! Confidence intervals of proportions and of means over tasks.

use super::distribution::{normal_quantile, student_quantile};
use super::{Estimate, compute_mean, compute_variance, count_to_f64};

/// Tasks, as the sum of their figures, from which on a variance between them tells enough.
const ENOUGH_TASKS: f64 = 5.0;

/// Returns Wilson's score interval of a proportion: `successes` of `observations` independent ones.
///
/// Neither needs to be whole. None without observations. `level` is the confidence level, such as 0.95.
#[must_use]
pub fn wilson_interval(successes: f64, observations: f64, level: f64) -> Option<(f64, f64)> {
    if observations <= 0.0 {
        return None;
    }
    Some(compute_wilson(successes, observations, normal_quantile((1.0 - level) / 2.0)))
}

/// Returns Wilson's score interval that extends to where the share is `z` standard errors away.
fn compute_wilson(successes: f64, observations: f64, z: f64) -> (f64, f64) {
    let share = successes / observations;
    let failures = observations - successes;
    let square = z * z;
    let middle = (successes + square / 2.0) / (observations + square);
    let half =
        z / (observations + square) * (successes * failures / observations + square / 4.0).sqrt();
    // At the ends the two terms are equal but for rounding.
    let low = if successes <= 0.0 { 0.0 } else { (middle - half).clamp(0.0, share) };
    let high = if failures <= 0.0 { 1.0 } else { (middle + half).clamp(share, 1.0) };
    (low, high)
}

/// Returns the mean over clusters of the mean of each, its standard error robust to clustering, and its interval.
///
/// `clusters` has the observations of each task; empty ones are left out. Each cluster weighs the same. The
/// standard error is the cluster-robust one with the correction G/(G−1) for G clusters; where all clusters are of
/// one size it is also that of the mean over observations. None without observations, or if one is not finite.
///
/// Where no observation is outside of 0 to 1, the interval is Wilson's of as many observations as tell as much as the
/// clusters do (`count_effective`), with the quantile of Student's t with G−1 degrees of freedom: one rule for one trial
/// of each task and for many. Else it is Student's. With one cluster there is neither standard error nor interval.
#[must_use]
pub fn estimate_mean<C: AsRef<[f64]>>(clusters: &[C], level: f64) -> Option<Estimate> {
    let clusters: Vec<&[f64]> =
        clusters.iter().map(AsRef::as_ref).filter(|cluster| !cluster.is_empty()).collect();
    let observations: usize = clusters.iter().map(|cluster| cluster.len()).sum();
    let means: Vec<f64> = clusters.iter().filter_map(|cluster| compute_mean(cluster)).collect();
    let value = compute_mean(&means).filter(|value| value.is_finite())?;
    let all = |is_so: fn(&f64) -> bool| clusters.iter().all(|cluster| cluster.iter().all(is_so));
    let standard_error = compute_standard_error(&means);
    let interval = standard_error.and_then(|error| {
        if !all(|value| (0.0..=1.0).contains(value)) {
            return student_interval(value, error, means.len(), None, level);
        }
        let most = all(|value| is_zero_or_one(*value)).then_some(observations);
        let effective = count_effective(value, error, means.len(), most);
        let freedom = count_to_f64(means.len()) - 1.0;
        let quantile = student_quantile((1.0 - level) / 2.0, freedom);
        Some(compute_wilson(value * effective, effective, quantile))
    });
    Some(Estimate {
        value,
        standard_error,
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
        observations: u64::try_from(observations).unwrap_or(u64::MAX),
    })
}

/// Returns how many independent 0/1 observations would have the standard error of a mean of clusters: m(1−m)/se². Of 0/1
/// observations no more than there are; where all clusters have the same mean as many as there are clusters: to find no
/// variance is not to know that there is none, and between 0 and 1 nothing varies more than a 0/1 observation.
///
/// Other observations vary less. Where fewer than five clusters, as the sum of their means, are away from 0 or 1, the variance
/// that was found says little, and there are no more than clusters either.
fn count_effective(mean: f64, standard_error: f64, clusters: usize, most: Option<usize>) -> f64 {
    let clusters = count_to_f64(clusters);
    if standard_error <= 0.0 {
        return clusters;
    }
    let effective = mean * (1.0 - mean) / (standard_error * standard_error);
    let is_at_an_end = clusters * mean.min(1.0 - mean) < ENOUGH_TASKS;
    match most {
        Some(most) => effective.min(count_to_f64(most)),
        None if is_at_an_end => effective.min(clusters),
        None => effective,
    }
}

/// Returns the standard error of the mean of independent values; none of fewer than two.
pub(crate) fn compute_standard_error(values: &[f64]) -> Option<f64> {
    if are_equal(values) && values.len() > 1 {
        // Exactly, whatever the rounding of the mean.
        return Some(0.0);
    }
    compute_variance(values).map(|variance| (variance / count_to_f64(values.len())).sqrt())
}

/// Returns Student's interval for a mean of `count` clusters. Within `range`, if there is one.
///
/// None if nothing varies: the interval would have no width, which claims a certainty that nobody has.
pub(crate) fn student_interval(
    value: f64,
    standard_error: f64,
    count: usize,
    range: Option<(f64, f64)>,
    level: f64,
) -> Option<(f64, f64)> {
    if standard_error <= 0.0 || count < 2 {
        return None;
    }
    let half = student_quantile((1.0 - level) / 2.0, count_to_f64(count) - 1.0) * standard_error;
    let (least, most) = range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    Some(((value - half).max(least), (value + half).min(most)))
}

/// Whether a reward is exactly 0 or 1.
// Rewards are given, not computed.
#[allow(clippy::float_cmp)]
pub(crate) fn is_zero_or_one(value: f64) -> bool {
    value == 0.0 || value == 1.0
}

/// Whether no value differs from another by more than rounding. True of none and of one.
pub(crate) fn are_equal(values: &[f64]) -> bool {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - least <= 1e-12 * most.abs().max(least.abs())
}
