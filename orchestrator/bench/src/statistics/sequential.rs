//! A stop as soon as a score is certain enough, corrected for looking again and again.
//!
//! Who computes a 95 % interval after every trial and stops when he likes what he sees is wrong far more often than in
//! 5 % of jobs. The intervals here form a confidence sequence: with the stated probability the truth is in all of
//! them, however often one looks and whenever one stops.
//!
//! The boundary is the two-sided normal mixture of Robbins. Estimates of a mean whose later ones contain the earlier
//! ones move, in the time of information (1 / variance), like a Brownian motion, also where each round only adds a
//! trial to the same tasks. The mixture is chosen to be the tightest where the half-width asked for is reached, which
//! depends on that half-width and on the level alone, never on what was seen; there the interval is about 1.5 times
//! as wide as one that may be looked at once. Spending the level over looks instead would need a list of looks
//! before the start, and grows with each.
//!
//! Two corrections for few tasks: the boundary is taken to Student's t at the same probability; and the variance is
//! computed with two further tasks, one at each end of the scale, so that tasks that are all solved by chance are
//! not taken for certainty.

use std::str::FromStr;

use super::distribution::{normal_tail, student_quantile};
use super::variance::ColumnVariance;
use super::{Estimate, compute_mean, compute_variance, count_to_f64, interval};

/// A stop when the interval of a score is narrow enough, such as `ci<3pp`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// The half-width that the interval has to be below, as a part of 1: 0.03 for 3 percentage points.
    pub half_width: f64,
    /// The confidence level of the whole sequence. Default: 0.95.
    pub level: f64,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a rule to stop; expected `ci<Npp` with N above 0 and at most 50, such as `ci<3pp`: stop when \
     the interval is narrower than ±3 percentage points"
)]
pub struct StopRuleError(String);

impl FromStr for StopRule {
    type Err = StopRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let points = text
            .trim()
            .strip_prefix("ci")
            .and_then(|rest| rest.trim_start().strip_prefix('<'))
            .and_then(|rest| rest.strip_suffix("pp"))
            .and_then(|points| points.trim().parse::<f64>().ok())
            .filter(|points| *points > 0.0 && *points <= 50.0)
            .ok_or_else(|| StopRuleError(text.to_owned()))?;
        Ok(Self { half_width: points / 100.0, level: 0.95 })
    }
}

impl StopRule {
    /// Returns the mean over tasks with its interval of the confidence sequence.
    ///
    /// `tasks` has the rewards of each task so far; give only complete rounds, one more trial of each task: where
    /// failures end sooner than successes, the trials that happen to have ended are no fair sample. None without
    /// rewards; without interval for fewer than two tasks.
    #[must_use]
    pub fn estimate<C: AsRef<[f64]>>(&self, tasks: &[C]) -> Option<Estimate> {
        let plain = interval::estimate_mean(tasks, self.level)?;
        let half = self.compute_half_width(tasks);
        let (least, most) = find_scale(tasks);
        let end = |end: f64| if least < 0.0 || most > 1.0 { end } else { end.clamp(0.0, 1.0) };
        Some(Estimate {
            low: half.map(|half| end(plain.value - half)),
            high: half.map(|half| end(plain.value + half)),
            ..plain
        })
    }

    /// Whether the interval of the sequence is narrow enough to stop.
    #[must_use]
    pub fn is_met<C: AsRef<[f64]>>(&self, tasks: &[C]) -> bool {
        self.compute_half_width(tasks).is_some_and(|half| half < self.half_width)
    }

    /// Estimates the half-width that the interval will have once each task has `trials` trials.
    ///
    /// What tasks differ by does not go away with trials: where this stays above the half-width asked for, only more
    /// tasks help. None without two tasks, or without a task of two trials.
    #[must_use]
    pub fn predict_half_width<C: AsRef<[f64]>>(&self, tasks: &[C], trials: u32) -> Option<f64> {
        let variance = ColumnVariance::from_rewards(tasks)?;
        let count = tasks.iter().filter(|task| !task.as_ref().is_empty()).count();
        let of_mean =
            (variance.between + variance.within / f64::from(trials.max(1))) / count_to_f64(count);
        Some(self.compute_factor(of_mean, count) * of_mean.sqrt())
    }

    fn compute_half_width<C: AsRef<[f64]>>(&self, tasks: &[C]) -> Option<f64> {
        let mut means: Vec<f64> =
            tasks.iter().filter_map(|task| compute_mean(task.as_ref())).collect();
        let count = means.len();
        if count < 2 {
            return None;
        }
        let (least, most) = find_scale(tasks);
        means.extend([least, most]);
        let variance = compute_variance(&means)? / count_to_f64(count);
        (variance > 0.0).then(|| self.compute_factor(variance, count) * variance.sqrt())
    }

    /// Returns how many standard errors the interval extends to each side.
    fn compute_factor(&self, variance: f64, tasks: usize) -> f64 {
        let alpha = 1.0 - self.level;
        let log = -2.0 * alpha.ln();
        // The ratio of information to that of the mixture at which the boundary is the tightest, for this level.
        let best = log + libm::log1p(log);
        let boundary = |ratio: f64| ((1.0 + 1.0 / ratio) * (libm::log1p(ratio) + log)).sqrt();
        let wanted = (boundary(best) / self.half_width).powi(2);
        let ratio = best / (wanted * variance);
        let tail = normal_tail(boundary(ratio));
        student_quantile(tail, count_to_f64(tasks) - 1.0)
    }
}

/// Returns the ends of the scale of rewards: 0 and 1, or further where rewards are.
fn find_scale<C: AsRef<[f64]>>(tasks: &[C]) -> (f64, f64) {
    let rewards = tasks.iter().flat_map(AsRef::as_ref);
    rewards.fold((0.0, 1.0), |(least, most), reward| {
        (f64::min(least, *reward), f64::max(most, *reward))
    })
}
