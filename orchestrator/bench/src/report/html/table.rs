//! Tables of a page, each figure with where it is from.

use ralph_orchestrator_text::escape_line;
use serde::Serialize;

use crate::report::figures::{NONE, format_count};
use crate::statistics::Estimate;
use crate::summary::ColumnSummary;

/// A piece of text, which may be a figure or a link.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Part {
    pub(super) text: String,
    /// The pointer to the value in the JSON.
    pub(super) path: Option<String>,
    /// The pointer to the value that it is divided by.
    pub(super) of: Option<String>,
    /// The value as JSON.
    pub(super) value: Option<String>,
    pub(super) href: Option<String>,
}

impl Part {
    /// Returns text in one line without control characters.
    pub(super) fn text(text: &str) -> Self {
        Self { text: escape_line(text), ..Self::default() }
    }

    /// Returns a figure: a value of the JSON, and how it is shown.
    pub(super) fn figure(path: String, value: impl Serialize, text: String) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default().to_string();
        Self { text, path: Some(path), value: Some(value), ..Self::default() }
    }

    /// Returns a number of things.
    pub(super) fn count(path: String, count: u64) -> Self {
        Self::figure(path, count, format_count(count))
    }
}

/// A cell: its parts one after the other.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Cell {
    pub(super) parts: Vec<Part>,
    pub(super) class: String,
    /// The number of the column of the job that it names, from 1.
    pub(super) column: Option<usize>,
}

impl Cell {
    pub(super) fn text(text: &str) -> Self {
        Self { parts: vec![Part::text(text)], ..Self::default() }
    }

    /// Returns a cell with one figure; a dash without it.
    pub(super) fn figure(figure: Option<Part>) -> Self {
        let part = figure.unwrap_or_else(|| Part::text(NONE));
        Self { parts: vec![part], class: "number".into(), ..Self::default() }
    }

    pub(super) fn count(path: String, count: u64) -> Self {
        Self::figure(Some(Part::count(path, count)))
    }
}

/// A table. The first cell of each row names it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) note: Option<String>,
}

impl Table {
    pub(super) fn new(caption: &str, headings: &[&str]) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
        Self { caption: caption.into(), headings, ..Self::default() }
    }
}

/// Returns an estimate's value, as `format` shows it; `path` points to the estimate.
pub(super) fn estimate_value(path: &str, estimate: &Estimate, format: fn(f64) -> String) -> Part {
    Part::figure(format!("{path}/value"), estimate.value, format(estimate.value))
}

/// Returns an estimate's interval in parts; none without one.
pub(super) fn interval_parts(
    path: &str,
    estimate: &Estimate,
    format: fn(f64) -> String,
) -> Option<Vec<Part>> {
    let (low, high) = (estimate.low?, estimate.high?);
    Some(vec![
        Part::figure(format!("{path}/low"), low, format(low)),
        Part::text(" to "),
        Part::figure(format!("{path}/high"), high, format(high)),
    ])
}

/// Returns the cell that names a column, with its number.
pub(super) fn column_cell(at: usize, column: &ColumnSummary) -> Cell {
    Cell { column: Some(at + 1), ..Cell::text(&column.column.to_string()) }
}
