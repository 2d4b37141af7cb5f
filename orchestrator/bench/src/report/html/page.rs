//! All that the template shows.

use ralph_orchestrator_text::escape_line;
use serde::Serialize;

use crate::report::figures::{format_level, format_percent};
use crate::report::html::TrialLinks;
use crate::report::html::attempts::build_attempts;
use crate::report::html::axis::{BOTTOM, LEFT, RIGHT, TOP};
use crate::report::html::curves::{Curves, build_curves};
use crate::report::html::fault_bars::{FaultBars, build_fault_bars};
use crate::report::html::scatter::{Scatter, build_scatter};
use crate::report::html::table::{Cell, Part, Table, column_cell};
use crate::report::html::tables::{
    build_cheating, build_comparisons, build_loop, build_pass, build_resources, build_results,
};
use crate::report::html::task_map::build_task_map;
use crate::report::machines::describe_machines;
use crate::report::text::{describe_comparisons, describe_job};
use crate::summary::JobSummary;
use crate::trial::TrialRecord;

/// The drawing area of the charts.
#[derive(Debug, Serialize)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// What the template shows.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    job: String,
    description: String,
    level: String,
    columns: Vec<String>,
    results: Table,
    comparisons: Vec<String>,
    comparison_table: Table,
    frame: Frame,
    scatter: Option<Scatter>,
    curves: Option<Curves>,
    curve_table: Option<Table>,
    faults: Option<FaultBars>,
    cheating: Option<Table>,
    pass: Table,
    loop_table: Table,
    resources: Table,
    tasks: Table,
    attempts: Table,
    machines: Vec<String>,
    warnings: Vec<String>,
}

pub(super) fn build_page(
    summary: &JobSummary,
    records: &[TrialRecord],
    find_links: &dyn Fn(&TrialRecord) -> TrialLinks,
) -> Page {
    let columns = summary.columns.iter().map(|column| escape_line(&column.column.to_string()));
    let curves = build_curves(summary);
    Page {
        job: escape_line(&summary.job),
        description: describe_job(summary),
        level: format_level(summary.level),
        columns: columns.collect(),
        results: build_results(summary),
        comparisons: describe_comparisons(summary),
        comparison_table: build_comparisons(summary),
        frame: Frame { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM },
        scatter: build_scatter(summary),
        curve_table: curves.as_ref().map(|curves| build_curve_table(summary, curves)),
        curves,
        faults: build_fault_bars(summary),
        cheating: build_cheating(summary),
        pass: build_pass(summary),
        loop_table: build_loop(summary),
        resources: build_resources(summary),
        tasks: build_task_map(summary),
        attempts: build_attempts(summary, records, find_links),
        machines: describe_machines(summary),
        warnings: summary.warnings.iter().map(|warning| escape_line(warning)).collect(),
    }
}

/// Returns the points of the curves as a table: iterations × columns.
fn build_curve_table(summary: &JobSummary, curves: &Curves) -> Table {
    let mut table = Table::new("Mean reward after each iteration", &["column"]);
    let longest = curves.curves.iter().map(|curve| &curve.points).max_by_key(|points| points.len());
    let points = longest.map_or(&[][..], |points| points);
    table.headings.extend(points.iter().map(super::curves::CurvePoint::name_iteration));
    for (at, column) in summary.columns.iter().enumerate() {
        let rewards = &column.loop_figures.reward_by_iteration;
        let cells = points.iter().map(|point| {
            let position = point.iteration - 1;
            Cell::figure(rewards.get(position).map(|reward| {
                let name = format!("/summary/columns/{at}/loop_figures/reward_by_iteration");
                Part::figure(format!("{name}/{position}"), reward, format_percent(*reward))
            }))
        });
        table.rows.push([column_cell(at, column)].into_iter().chain(cells).collect());
    }
    table
}
