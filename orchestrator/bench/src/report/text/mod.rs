//! A job for a terminal: plain text of a given width, without colour.

mod layout;

use ralph_orchestrator_text::{escape_line, wrap};

use crate::report::cells::{Grid, build_summary_grids, build_task_grid};
use crate::report::figures::{format_count, format_level, format_things};
use crate::report::machines::describe_machines;
use crate::report::wording::describe_comparison;
use crate::summary::JobSummary;

/// The least width that lines are broken at, in columns.
const LEAST_WIDTH: usize = 24;

/// Returns the tables, comparisons and warnings of a job. No line is wider than `width` columns of a terminal, or 24
/// if that is less.
#[must_use]
pub fn render_summary(summary: &JobSummary, width: usize) -> String {
    let width = width.max(LEAST_WIDTH);
    let mut out = String::new();
    push_wrapped(&mut out, &describe_job(summary), "", width);
    for grid in build_summary_grids(summary) {
        push_grid(&mut out, &grid, width);
    }
    push_list(&mut out, "Comparisons", &describe_comparisons(summary), width);
    push_list(&mut out, "Machines", &describe_machines(summary), width);
    let warnings: Vec<_> = summary.warnings.iter().map(|text| escape_line(text)).collect();
    push_list(&mut out, "Warnings", &warnings, width);
    out
}

/// Returns the table of tasks × columns; nothing without tasks. No line is wider than `width` columns of a terminal,
/// or 24 if that is less.
#[must_use]
pub fn render_tasks(summary: &JobSummary, width: usize) -> String {
    let mut out = String::new();
    let grid = build_task_grid(summary);
    if !grid.rows.is_empty() {
        push_grid(&mut out, &grid, width.max(LEAST_WIDTH));
    }
    out
}

/// Returns the comparisons in words, each one a sentence without a full stop.
#[must_use]
pub fn describe_comparisons(summary: &JobSummary) -> Vec<String> {
    let describe = |comparison| describe_comparison(comparison, summary.level);
    summary.comparisons.iter().map(describe).collect()
}

/// Returns what a job consists of, in a sentence.
pub(super) fn describe_job(summary: &JobSummary) -> String {
    let judged: u64 = summary.columns.iter().map(|column| column.judged).sum();
    let ended: u64 = summary.columns.iter().map(|column| column.ended).sum();
    let columns = u64::try_from(summary.columns.len()).unwrap_or(u64::MAX);
    format!(
        "Job {}: {}, {} planned, {} ended, {} judged; intervals at {}",
        escape_line(&summary.job),
        format_things(columns, "column"),
        format_things(summary.planned, "trial"),
        format_count(ended),
        format_count(judged),
        format_level(summary.level),
    )
}

fn push_grid(out: &mut String, grid: &Grid, width: usize) {
    if !out.is_empty() {
        out.push('\n');
    }
    push_wrapped(out, grid.title, "", width);
    layout::push_table(out, grid, width);
    if let Some(note) = grid.note {
        push_wrapped(out, note, "  ", width);
    }
}

fn push_list(out: &mut String, title: &str, items: &[String], width: usize) {
    if items.is_empty() {
        return;
    }
    out.push('\n');
    push_wrapped(out, title, "", width);
    for item in items {
        for (number, line) in wrap(item, width - 4, 0).iter().enumerate() {
            out.push_str(if number == 0 { "  - " } else { "    " });
            out.push_str(line);
            out.push('\n');
        }
    }
}

fn push_wrapped(out: &mut String, text: &str, indent: &str, width: usize) {
    for line in wrap(text, width - indent.len(), 0) {
        out.push_str(indent);
        out.push_str(&line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests;
