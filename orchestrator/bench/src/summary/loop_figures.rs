//! Figures of the loop around the agent.

use super::attempts::Trial;
use super::types::LoopFigures;
use crate::statistics::bootstrap::find_percentile;
use crate::statistics::{compute_mean, count_to_f64, whole_to_f64};
use crate::trial::TrialRecord;

/// Iterations that the mean reward is given for.
const MAX_CURVE: u64 = 1_000;

/// Computes the figures from the last attempts of trials.
pub(super) fn compute(trials: &[&Trial<'_>]) -> LoopFigures {
    let records: Vec<&TrialRecord> = trials.iter().map(|trial| trial.last()).collect();
    let iterations: Vec<f64> = records
        .iter()
        .filter(|record| record.is_judged())
        .map(|record| whole_to_f64(record.iterations))
        .collect();
    let mut to_solve: Vec<f64> = records
        .iter()
        .filter(|record| record.is_solved())
        .filter_map(|record| find_first_solved(record))
        .map(whole_to_f64)
        .collect();
    to_solve.sort_by(f64::total_cmp);
    LoopFigures {
        mean_iterations: compute_mean(&iterations),
        median_iterations_to_solve: find_percentile(&to_solve, 0.5),
        reward_by_iteration: average_curves(&records),
        wasted_iterations: count_wasted(&records),
        false_completions: u64::try_from(
            records.iter().filter(|record| record.is_false_completion()).count(),
        )
        .unwrap_or(u64::MAX),
        claims: records.iter().map(|record| record.claims).fold(0, u64::saturating_add),
    }
}

/// Returns the iterations after the one that led to the full reward, if it is known of any trial which one that was.
fn count_wasted(records: &[&TrialRecord]) -> Option<u64> {
    let wasted =
        |record: &&TrialRecord| Some(record.iterations.saturating_sub(find_first_solved(record)?));
    let is_known = records.iter().any(|record| !record.curve.is_empty());
    is_known.then(|| records.iter().filter_map(wasted).fold(0, u64::saturating_add))
}

/// Returns the first iteration after which the work had the full reward.
fn find_first_solved(record: &TrialRecord) -> Option<u64> {
    record
        .curve
        .iter()
        .filter(|point| point.reward().is_some_and(|reward| reward >= 1.0))
        .map(|point| point.iteration)
        .min()
}

/// Returns the mean reward after each iteration, of the same trials at each, so that it only moves with the work.
fn average_curves(records: &[&TrialRecord]) -> Vec<f64> {
    let curves: Vec<Vec<f64>> = records.iter().filter_map(|record| fill_curve(record)).collect();
    let longest = curves.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .map(|index| {
            let rewards = curves.iter().filter_map(|curve| curve.get(index).or(curve.last()));
            rewards.sum::<f64>() / count_to_f64(curves.len())
        })
        .collect()
}

/// Returns the reward after each iteration from the first one; one that was not verified has that of the one before.
/// None if the first one was not.
fn fill_curve(record: &TrialRecord) -> Option<Vec<f64>> {
    let mut points: Vec<(u64, f64)> = record
        .curve
        .iter()
        .filter(|point| (1..=MAX_CURVE).contains(&point.iteration))
        .filter_map(|point| Some((point.iteration, point.reward()?)))
        .collect();
    points.sort_by_key(|(iteration, _)| *iteration);
    let (first, mut reward) = points.first().copied()?;
    if first != 1 {
        return None;
    }
    let mut curve = Vec::new();
    let mut next = 1;
    for (iteration, later) in points {
        while next < iteration {
            curve.push(reward);
            next += 1;
        }
        if next == iteration {
            curve.push(later);
            next += 1;
        }
        reward = later;
    }
    Some(curve)
}
