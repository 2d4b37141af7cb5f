//! The chart of score against cost.

use serde::Serialize;

use crate::report::figures::{format_number, format_percent};
use crate::report::html::axis::{Axis, BOTTOM, LEFT, RIGHT, TOP, Tick};
use crate::summary::JobSummary;

/// A column as a point with the interval of its score.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    /// The column's number in the job, from 1.
    pub(super) number: usize,
    x: f64,
    y: f64,
    /// The coordinates of the interval's ends.
    interval: Option<(f64, f64)>,
    x_path: String,
    x_value: f64,
    y_path: String,
    y_value: f64,
}

/// The chart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scatter {
    points: Vec<Point>,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
}

/// Returns the chart of the columns with a score and a known cost; none if there are none.
pub(super) fn build_scatter(summary: &JobSummary) -> Option<Scatter> {
    let columns = summary.columns.iter().enumerate();
    let scored: Vec<_> = columns
        // What is not known has no place on the axis, least of all at zero.
        .filter_map(|(at, column)| Some((at, column.cost_usd?, column.score?)))
        .filter(|(_, cost, score)| cost.is_finite() && score.value.is_finite())
        .collect();
    if scored.is_empty() {
        return None;
    }
    let costs = scored.iter().map(|(_, cost, _)| *cost).chain([0.0]);
    let x = Axis::covering(costs, (LEFT, RIGHT));
    let y = score_axis(scored.iter().map(|(_, _, score)| score.value));
    let points = scored.iter().map(|(at, cost, score)| Point {
        number: at + 1,
        x: x.place(*cost),
        y: y.place(score.value),
        interval: score.low.zip(score.high).map(|(low, high)| (y.place(low), y.place(high))),
        x_path: format!("/summary/columns/{at}/cost_usd"),
        x_value: *cost,
        y_path: format!("/summary/columns/{at}/score/value"),
        y_value: score.value,
    });
    Some(Scatter {
        points: points.collect(),
        x_ticks: x.ticks(|value| format!("${}", format_number(value, x.digits()))),
        y_ticks: y.ticks(format_tick),
    })
}

/// Returns the axis of rewards: from 0 to 1, and as far beyond as values are.
pub(super) fn score_axis(values: impl Iterator<Item = f64>) -> Axis {
    Axis::covering(values.chain([0.0, 1.0]), (BOTTOM, TOP))
}

/// Returns a share in percent without digits after the point where there are none.
pub(super) fn format_tick(value: f64) -> String {
    format_percent(value).replace(".0 %", " %")
}
