//! Intervals of figures that have no formula for theirs: tasks are drawn again, with all that belongs to them.

use super::random::SeededRandom;
use super::{compute_mean, compute_variance, count_to_f64};

/// How a cluster bootstrap is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapOptions {
    /// The confidence level, such as 0.95.
    pub level: f64,
    /// How often all clusters are drawn again. Default: 2,000.
    pub samples: u32,
    /// What the draws depend on. Default: 0.
    pub seed: u64,
}

impl Default for BootstrapOptions {
    fn default() -> Self {
        Self { level: 0.95, samples: 2_000, seed: 0 }
    }
}

/// What a cluster bootstrap found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapInterval {
    /// Standard deviation of the figure over the samples; none if it is infinite in one.
    pub standard_error: Option<f64>,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end, which may be infinite.
    pub high: f64,
}

/// Returns the percentile interval of a figure by a bootstrap over clusters.
///
/// `figure` is computed of as many clusters as there are, drawn with putting back; it may be infinite. None with fewer
/// than two clusters, without samples, or where a figure is not a number. Unfit for proportions: where all are
/// solved each sample says the same, and the interval has no width.
pub fn bootstrap_clusters<T>(
    clusters: &[T],
    options: BootstrapOptions,
    figure: impl Fn(&[&T]) -> f64,
) -> Option<BootstrapInterval> {
    if clusters.len() < 2 || options.samples == 0 {
        return None;
    }
    let mut random = SeededRandom::from_seed(options.seed);
    let mut figures = Vec::new();
    for _ in 0..options.samples {
        let sample: Vec<&T> =
            (0..clusters.len()).filter_map(|_| random.draw_from(clusters)).collect();
        figures.push(figure(&sample));
    }
    if figures.iter().any(|figure| figure.is_nan()) {
        return None;
    }
    figures.sort_by(f64::total_cmp);
    let tail = (1.0 - options.level) / 2.0;
    let is_finite = compute_mean(&figures).is_some_and(f64::is_finite);
    Some(BootstrapInterval {
        standard_error: compute_variance(&figures).filter(|_| is_finite).map(f64::sqrt),
        low: find_percentile(&figures, tail)?,
        high: find_percentile(&figures, 1.0 - tail)?,
    })
}

/// Returns the quantile of sorted values, between two of them by their distance, as numpy does.
pub(crate) fn find_percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let position = share.clamp(0.0, 1.0) * (count_to_f64(sorted.len()) - 1.0);
    // Not negative, and at most the number of values.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = position.floor() as usize;
    let below = sorted.get(index).copied()?;
    let above = sorted.get(index + 1).copied().unwrap_or(below);
    let part = position - position.floor();
    // Between two infinite values there is no distance.
    if part <= 0.0 || below >= above { Some(below) } else { Some(below + (above - below) * part) }
}
