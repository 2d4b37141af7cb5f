//! What the iterations cost, as bars.

use ralph_orchestrator_bench::report::html::axis::{Axis, BOTTOM, LEFT, RIGHT, TOP, Tick, round};
use ralph_orchestrator_story::run_summary::IterationSummary;
use serde::Serialize;

/// Bars that are drawn. Of more iterations, several have one bar.
const MOST_BARS: usize = 100;
/// Marks below the bars.
const MOST_MARKS: usize = 6;
/// The share of its place that a bar takes.
const FILLED: f64 = 0.8;

/// The chart of cost by iteration.
#[derive(Debug, Serialize)]
pub(super) struct CostPlot {
    left: f64,
    right: f64,
    bottom: f64,
    bars: Vec<Bar>,
    ticks: Vec<Tick>,
    marks: Vec<Mark>,
    /// How many iterations have one bar.
    grouped: usize,
}

/// The mean cost of one or more iterations.
#[derive(Debug, Serialize)]
struct Bar {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// What the last of them came to: "accepted", "rejected", "not checked" or nothing.
    verdict: &'static str,
    title: String,
}

#[derive(Debug, Serialize)]
struct Mark {
    x: f64,
    text: String,
}

impl CostPlot {
    /// Returns the chart; none if nothing has cost anything.
    pub(super) fn new(iterations: &[&IterationSummary]) -> Option<Self> {
        if iterations.iter().all(|one| one.cost_usd.nanos() == 0) {
            return None;
        }
        let grouped = iterations.len().div_ceil(MOST_BARS).max(1);
        let groups: Vec<_> = iterations.chunks(grouped).map(Group::new).collect();
        let highest = groups.iter().map(|group| group.mean);
        let axis = Axis::covering(highest.chain([0.0]), (BOTTOM, TOP));
        let step = (RIGHT - LEFT) / to_float(groups.len());
        let place = |at: usize| LEFT + step * to_float(at);
        let bars = groups.iter().enumerate().map(|(at, group)| {
            let y = axis.place(group.mean);
            Bar {
                x: round(place(at) + step * (1.0 - FILLED) / 2.0),
                y,
                width: round(step * FILLED),
                height: round(BOTTOM - y),
                verdict: group.verdict,
                title: group.title(),
            }
        });
        let apart = groups.len().div_ceil(MOST_MARKS).max(1);
        let marks = groups.iter().enumerate().step_by(apart).map(|(at, group)| Mark {
            x: round(place(at) + step / 2.0),
            text: group.first.to_string(),
        });
        let digits = axis.digits();
        Some(Self {
            left: LEFT,
            right: RIGHT,
            bottom: BOTTOM,
            bars: bars.collect(),
            ticks: axis.ticks(|value| format!("{value:.digits$}")),
            marks: marks.collect(),
            grouped,
        })
    }
}

/// Iterations that have one bar.
struct Group {
    first: u64,
    last: u64,
    mean: f64,
    verdict: &'static str,
}

impl Group {
    fn new(iterations: &[&IterationSummary]) -> Self {
        let number = |one: Option<&&IterationSummary>| one.map_or(0, |one| one.iteration);
        let total: f64 = iterations.iter().map(|one| one.cost_usd.dollars()).sum();
        Self {
            first: number(iterations.first()),
            last: number(iterations.last()),
            mean: total / to_float(iterations.len().max(1)),
            verdict: iterations.last().map_or("", |one| verdict_word(one)),
        }
    }

    fn title(&self) -> String {
        let verdict = if self.verdict.is_empty() { "" } else { ", " };
        let what = match self.first == self.last {
            true => format!("iteration {}: ${:.4}", self.first, self.mean),
            false => {
                format!("iterations {} to {}: ${:.4} on average", self.first, self.last, self.mean)
            }
        };
        format!("{what}{verdict}{}", self.verdict)
    }
}

/// Numbers of iterations are far below what a float holds exactly.
fn to_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(super) const fn verdict_word(one: &IterationSummary) -> &'static str {
    match one.accepted {
        Some(true) => "accepted",
        Some(false) if one.unchecked => "not checked",
        Some(false) => "rejected",
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use ralph_orchestrator_story::run_summary::RunSummary;

    use super::*;

    /// The summary of a run with this many iterations that cost as much as their numbers, in cents.
    fn run(count: u64) -> RunSummary {
        let mut summary = RunSummary::default();
        for iteration in 1..=count {
            let records = [
                serde_json::json!({"kind": "iteration_started", "iteration": iteration, "attempt": 1,
                    "trigger": "initial", "prompt": "", "fingerprint": "", "reservation": 0, "runtime_ms": 0}),
                serde_json::json!({"kind": "iteration_ended", "iteration": iteration,
                    "outcome": {"type": "succeeded"}, "usage": {"cost": 0.0, "estimated": false},
                    "cost_usd": f64::from(u32::try_from(iteration).unwrap()) / 100.0, "says_done": false,
                    "left_behind": [], "runtime_ms": 0}),
            ];
            for record in records {
                summary.add(&serde_json::from_value(record).unwrap());
            }
        }
        summary
    }

    fn plot(summary: &RunSummary) -> Option<CostPlot> {
        CostPlot::new(
            &summary.iterations.values().filter(|one| !one.is_empty()).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn each_iteration_has_a_bar_as_high_as_its_cost() {
        let plot = plot(&run(4)).unwrap();
        assert_eq!(plot.bars.len(), 4);
        let heights: Vec<f64> = plot.bars.iter().map(|bar| bar.height).collect();
        assert!((heights[3] - 4.0 * heights[0]).abs() < 0.1, "{heights:?}");
        assert!(plot.bars.iter().all(|bar| bar.x >= LEFT && bar.x + bar.width <= RIGHT));
        assert_eq!(plot.bars[2].title, "iteration 3: $0.0300");
        assert_eq!(plot.grouped, 1);
    }

    #[test]
    fn many_iterations_share_bars() {
        let plot = plot(&run(1001)).unwrap();
        assert!(plot.bars.len() <= MOST_BARS && plot.grouped == 11, "{}", plot.bars.len());
        assert_eq!(plot.bars[0].title, "iterations 1 to 11: $0.0600 on average");
        assert!(plot.marks.len() <= MOST_MARKS);
    }

    #[test]
    fn without_costs_there_is_no_chart() {
        assert!(plot(&run(0)).is_none());
        assert!(CostPlot::new(&[]).is_none());
    }
}
