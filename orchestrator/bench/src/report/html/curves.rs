//! The chart of the reward after each iteration.

use serde::Serialize;

use crate::report::figures::format_count;
use crate::report::html::axis::{Axis, BOTTOM, LEFT, RIGHT, TOP, Tick, round};
use crate::report::html::scatter::{format_tick, score_axis};
use crate::summary::JobSummary;

/// The most iterations that are drawn of a column.
const MOST_POINTS: usize = 60;
/// How far apart the numbers at the ends of curves are at least.
const LABEL_GAP: f64 = 12.0;
/// How far right of the last point they are.
const LABEL_OFFSET: f64 = 9.0;

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CurvePoint {
    /// The iteration, from 1.
    pub(super) iteration: usize,
    x: f64,
    y: f64,
    pub(super) path: String,
    pub(super) value: f64,
}

/// A column's curve.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Curve {
    /// The column's number in the job, from 1.
    pub(super) number: usize,
    pub(super) points: Vec<CurvePoint>,
    /// The coordinates of all points, as SVG has them.
    line: String,
    label_x: f64,
    label_y: f64,
}

/// The chart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Curves {
    pub(super) curves: Vec<Curve>,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    /// Not all iterations are drawn.
    is_thinned: bool,
}

/// Returns the chart; none if no trial was verified after its iterations.
pub(super) fn build_curves(summary: &JobSummary) -> Option<Curves> {
    let rewards = |at: usize| {
        let column = summary.columns.get(at);
        column.map_or(&[][..], |column| &column.loop_figures.reward_by_iteration)
    };
    let longest = (0..summary.columns.len()).map(|at| rewards(at).len()).max()?;
    if longest == 0 {
        return None;
    }
    let last = to_float(longest);
    let x = Axis::covering([1.0, last.max(2.0)].into_iter(), (LEFT + 6.0, RIGHT - 18.0));
    let all = (0..summary.columns.len()).flat_map(|at| rewards(at).iter().copied());
    let y = score_axis(all);
    let mut curves = Vec::new();
    for at in 0..summary.columns.len() {
        let points = build_points(at, rewards(at), &x, &y);
        let Some(end) = points.last() else { continue };
        let coordinates: Vec<_> =
            points.iter().map(|point| format!("{},{}", point.x, point.y)).collect();
        curves.push(Curve {
            number: at + 1,
            label_x: round(end.x + LABEL_OFFSET),
            label_y: end.y,
            line: coordinates.join(" "),
            points,
        });
    }
    separate_labels(&mut curves);
    let ticks = x.ticks(|value| format!("{value}"));
    Some(Curves {
        curves,
        x_ticks: ticks.into_iter().filter(|tick| is_whole(tick.value, last)).collect(),
        y_ticks: y.ticks(format_tick),
        is_thinned: longest > MOST_POINTS,
    })
}

/// Returns whether a mark is the number of an iteration.
fn is_whole(value: f64, last: f64) -> bool {
    value >= 1.0 && value <= last && value.fract() == 0.0
}

fn build_points(column: usize, rewards: &[f64], x: &Axis, y: &Axis) -> Vec<CurvePoint> {
    let selected = select_points(rewards.len());
    let points = selected.into_iter().filter_map(|at| {
        let value = rewards.get(at).copied().filter(|value| value.is_finite())?;
        Some(CurvePoint {
            iteration: at + 1,
            x: x.place(to_float(at + 1)),
            y: y.place(value),
            path: format!("/summary/columns/{column}/loop_figures/reward_by_iteration/{at}"),
            value,
        })
    });
    points.collect()
}

/// Returns the points to draw: all, or so many at even distances, with the first and the last one.
fn select_points(count: usize) -> Vec<usize> {
    if count <= MOST_POINTS {
        return (0..count).collect();
    }
    (0..MOST_POINTS).map(|number| number * (count - 1) / (MOST_POINTS - 1)).collect()
}

/// Moves numbers apart that would lie on each other.
fn separate_labels(curves: &mut [Curve]) {
    let mut order: Vec<_> = curves.iter_mut().collect();
    order.sort_by(|a, b| b.label_y.total_cmp(&a.label_y));
    // From below upwards, then back into the drawing area.
    let mut below = BOTTOM + LABEL_GAP;
    for curve in &mut order {
        curve.label_y = curve.label_y.min(below - LABEL_GAP);
        below = curve.label_y;
    }
    let mut above = TOP - LABEL_GAP;
    for curve in order.iter_mut().rev() {
        curve.label_y = round(curve.label_y.max(above + LABEL_GAP));
        above = curve.label_y;
    }
}

/// Returns a number of iterations: exact up to 2^53.
const fn to_float(count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss)] // Runs have far less iterations than 2^53.
    let value = count as f64;
    value
}

impl CurvePoint {
    /// Returns what a pointer device shows at the point.
    pub(super) fn name_iteration(&self) -> String {
        format!("iteration {}", format_count(u64::try_from(self.iteration).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{build_job, column};

    #[test]
    fn thins_long_curves_with_both_ends() {
        let points = select_points(10_000);
        assert_eq!(points.len(), MOST_POINTS);
        assert_eq!((points[0], points[MOST_POINTS - 1]), (0, 9_999));
        assert_eq!(select_points(3), [0, 1, 2]);
        assert!(select_points(0).is_empty());
    }

    #[test]
    fn keeps_labels_apart_and_inside() {
        let columns: Vec<_> = (1..=8).map(|at| column(&format!("a{at}"))).collect();
        let (mut summary, _) = build_job(&columns, &["t".into()], 1);
        for reward in [0.0, 0.5, 1.0] {
            for column in &mut summary.columns {
                column.loop_figures.reward_by_iteration = vec![reward; 2];
            }
            let chart = build_curves(&summary).unwrap();
            let mut labels: Vec<_> = chart.curves.iter().map(|curve| curve.label_y).collect();
            labels.sort_by(f64::total_cmp);
            for pair in labels.windows(2) {
                assert!(pair[1] - pair[0] >= LABEL_GAP - 0.02, "{labels:?}");
            }
            assert!(labels[0] >= TOP && labels[7] <= BOTTOM, "{labels:?}");
        }
    }

    #[test]
    fn is_left_out_without_iterations() {
        let (mut summary, _) = build_job(&[column("a")], &["t".into()], 1);
        summary.columns[0].loop_figures.reward_by_iteration.clear();
        assert!(build_curves(&summary).is_none());
        summary.columns.clear();
        assert!(build_curves(&summary).is_none());
    }
}
