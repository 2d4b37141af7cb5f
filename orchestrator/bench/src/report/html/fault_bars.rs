//! The chart of faults by cause, one bar for each column.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::report::figures::{format_count, name_cause, to_float};
use crate::report::html::axis::{LEFT, RIGHT, round};
use crate::report::html::table::{Cell, Table, column_cell};
use crate::summary::JobSummary;
use crate::trial::Cause;

/// How far apart the bars are, and where the first one begins.
const PITCH: usize = 24;
const FIRST: usize = 8;
/// Below this width, a part of a bar has no number in it.
const LEAST_LABELLED: f64 = 14.0;

/// The faults of one cause in a bar.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BarPart {
    cause: &'static str,
    x: f64,
    width: f64,
    label: Option<String>,
    path: String,
    value: u64,
}

/// A column's bar.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bar {
    /// The column's number in the job, from 1.
    number: usize,
    y: usize,
    parts: Vec<BarPart>,
}

/// The chart, with the table of the same.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FaultBars {
    height: usize,
    bars: Vec<Bar>,
    causes: Vec<&'static str>,
    table: Table,
}

/// Returns the chart; none without faults.
pub(super) fn build_fault_bars(summary: &JobSummary) -> Option<FaultBars> {
    let columns = &summary.columns;
    let faults = columns.iter().flat_map(|column| column.faults.keys().copied());
    let causes: BTreeSet<Cause> = faults.collect();
    let totals = columns.iter().map(|column| column.faults.values().sum::<u64>());
    let most = totals.max().filter(|most| *most > 0)?;
    let scale = (RIGHT - LEFT) / to_float(most);
    let bars = columns.iter().enumerate().map(|(at, column)| {
        let mut x = LEFT;
        let mut parts = Vec::new();
        for (cause, count) in &column.faults {
            let width = to_float(*count) * scale;
            parts.push(BarPart {
                cause: name_cause(*cause),
                x: round(x),
                width: round(width),
                label: (width >= LEAST_LABELLED).then(|| format_count(*count)),
                path: fault_path(at, *cause),
                value: *count,
            });
            x += width;
        }
        Bar { number: at + 1, y: FIRST + PITCH * at, parts }
    });
    Some(FaultBars {
        height: FIRST + PITCH * columns.len() + FIRST,
        bars: bars.collect(),
        causes: causes.iter().map(|cause| name_cause(*cause)).collect(),
        table: build_table(summary, &causes),
    })
}

/// Returns the pointer to the number of faults of a cause.
pub(super) fn fault_path(column: usize, cause: Cause) -> String {
    format!("/summary/columns/{column}/faults/{}", name_cause(cause))
}

fn build_table(summary: &JobSummary, causes: &BTreeSet<Cause>) -> Table {
    let mut table = Table::new("Trials with a fault, by cause", &["column"]);
    table.headings.extend(causes.iter().map(|cause| name_cause(*cause).to_owned()));
    for (at, column) in summary.columns.iter().enumerate() {
        let cells = causes.iter().map(|cause| match column.faults.get(cause) {
            Some(count) => Cell::count(fault_path(at, *cause), *count),
            None => Cell::figure(None),
        });
        table.rows.push([column_cell(at, column)].into_iter().chain(cells).collect());
    }
    table
}
