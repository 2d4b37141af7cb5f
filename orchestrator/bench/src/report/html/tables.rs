//! The tables of a job's columns.

use crate::report::cells::{has_cheating, select_k};
use crate::report::figures::{
    NONE, compute_coverage, format_cost, format_count, format_duration, format_number,
    format_percent, format_usd, name_cause, name_cheat,
};
use crate::report::html::fault_bars::fault_path;
use crate::report::html::table::{Cell, Part, Table, column_cell, estimate_value, interval_parts};
use crate::statistics::Estimate;
use crate::summary::{ColumnSummary, JobSummary};

/// Returns the pointer to a column's summary.
fn column_path(at: usize) -> String {
    format!("/summary/columns/{at}")
}

/// Returns the table of scores, faults and cost.
pub(super) fn build_results(summary: &JobSummary) -> Table {
    let headings = [
        "column",
        "score",
        "interval",
        "solved",
        "judged",
        "planned",
        "coverage",
        "per solved",
        "cost",
        "faults",
    ];
    let mut table = Table::new("Results by column", &headings);
    table.note = Some(
        "Score: mean reward over tasks. Coverage: judged of planned trials; only judged ones count for the score. \
         Interval: Wilson's with the number of trials that tell as much as these tasks do, by Student's t over tasks. \
         Cost: of all attempts; per solved: for each solved trial."
            .into(),
    );
    for (at, column) in summary.columns.iter().enumerate() {
        let path = column_path(at);
        let score_path = format!("{path}/score");
        let score = column.score.as_ref();
        table.rows.push(vec![
            column_cell(at, column),
            strong(score.map(|score| estimate_value(&score_path, score, format_percent))),
            interval_cell(score.and_then(|s| interval_parts(&score_path, s, format_percent))),
            Cell::count(format!("{path}/solved"), column.solved),
            Cell::count(format!("{path}/judged"), column.judged),
            Cell::count(format!("{path}/planned"), column.planned),
            Cell::figure(coverage_part(&path, column)),
            per_solved_cell(&path, column),
            cost_cell(&path, column),
            faults_cell(at, column),
        ]);
    }
    table
}

fn strong(figure: Option<Part>) -> Cell {
    Cell { class: "number strong".into(), ..Cell::figure(figure) }
}

fn interval_cell(parts: Option<Vec<Part>>) -> Cell {
    match parts {
        Some(parts) => Cell { parts, ..Cell::figure(None) },
        None => Cell::figure(None),
    }
}

fn coverage_part(path: &str, column: &ColumnSummary) -> Option<Part> {
    let coverage = compute_coverage(column.judged, column.planned)?;
    let part = Part::figure(format!("{path}/judged"), coverage, format_percent(coverage));
    Some(Part { of: Some(format!("{path}/planned")), ..part })
}

fn per_solved_cell(path: &str, column: &ColumnSummary) -> Cell {
    Cell::figure(
        column.cost_per_solved_usd.map(|cost| {
            Part::figure(format!("{path}/cost_per_solved_usd"), cost, format_usd(cost))
        }),
    )
}

fn cost_cell(path: &str, column: &ColumnSummary) -> Cell {
    let text = format_cost(column.cost_usd, column.cost_unknown, column.cost_estimated);
    Cell::figure(Some(match column.cost_usd {
        Some(cost) => Part::figure(format!("{path}/cost_usd"), cost, text),
        None => Part::text(&text),
    }))
}

/// Returns the table of tokens and time.
pub(super) fn build_resources(summary: &JobSummary) -> Table {
    let headings = [
        "column",
        "cost",
        "not reported",
        "input",
        "output",
        "cache read",
        "cache write",
        "median run",
        "retries",
    ];
    let mut table = Table::new("Tokens and time of all attempts", &headings);
    table.note = Some(
        "Not reported: attempts without a known cost, so that the cost is a lower bound. Input excludes the cache."
            .into(),
    );
    for (at, column) in summary.columns.iter().enumerate() {
        let path = column_path(at);
        let tokens = |name: &str, count| Cell::count(format!("{path}/tokens/{name}"), count);
        table.rows.push(vec![
            column_cell(at, column),
            cost_cell(&path, column),
            Cell::count(format!("{path}/cost_unknown"), column.cost_unknown),
            tokens("input", column.tokens.input),
            tokens("output", column.tokens.output),
            tokens("cache_read", column.tokens.cache_read),
            tokens("cache_write", column.tokens.cache_write),
            Cell::figure(
                column.median_run_ms.map(|ms| {
                    Part::figure(format!("{path}/median_run_ms"), ms, format_duration(ms))
                }),
            ),
            Cell::count(format!("{path}/retries"), column.retries),
        ]);
    }
    table
}

fn faults_cell(at: usize, column: &ColumnSummary) -> Cell {
    let mut parts = Vec::new();
    for (cause, count) in &column.faults {
        let separator = if parts.is_empty() { "" } else { ", " };
        parts.push(Part::text(&format!("{separator}{} ", name_cause(*cause))));
        parts.push(Part::count(fault_path(at, *cause), *count));
    }
    if parts.is_empty() {
        parts.push(Part::text("none"));
    }
    Cell { parts, class: "small".into(), column: None }
}

/// Returns the table of pass@k and pass^k.
pub(super) fn build_pass(summary: &JobSummary) -> Table {
    let mut table =
        Table::new("Several trials", &["column", "k", "pass@k", "interval", "pass^k", "interval"]);
    table.note = Some(
        "pass@k: at least one of k trials solves a task. pass^k: all of them do. Both are unbiased estimates."
            .into(),
    );
    for (at, column) in summary.columns.iter().enumerate() {
        for k in select_k(column) {
            let cells = |name: &str, estimate: Option<&Estimate>| {
                let path = format!("{}/{name}/{k}", column_path(at));
                let value = estimate.map(|e| estimate_value(&path, e, format_percent));
                let interval = estimate.and_then(|e| interval_parts(&path, e, format_percent));
                [Cell::figure(value), interval_cell(interval)]
            };
            let mut row =
                vec![column_cell(at, column), Cell::figure(Some(Part::text(&k.to_string())))];
            row.extend(cells("pass_at", column.pass_at.get(&k)));
            row.extend(cells("pass_hat", column.pass_hat.get(&k)));
            table.rows.push(row);
        }
    }
    table
}

/// Returns the table of the loop around the agents.
pub(super) fn build_loop(summary: &JobSummary) -> Table {
    let headings = ["column", "iterations", "to solve", "wasted", "claims", "false completions"];
    let mut table = Table::new("The loop", &headings);
    table.note = Some(
        "Iterations: mean of a judged trial. To solve: median of the first iteration with the full reward. Wasted: \
         iterations after it. False completions: completed runs with less than the full reward."
            .into(),
    );
    for (at, column) in summary.columns.iter().enumerate() {
        let path = format!("{}/loop_figures", column_path(at));
        let figures = &column.loop_figures;
        let number = |name: &str, value: Option<f64>| {
            Cell::figure(value.map(|value| {
                Part::figure(format!("{path}/{name}"), value, format_number(value, 1))
            }))
        };
        let count = |name: &str, value| Cell::count(format!("{path}/{name}"), value);
        table.rows.push(vec![
            column_cell(at, column),
            number("mean_iterations", figures.mean_iterations),
            number("median_iterations_to_solve", figures.median_iterations_to_solve),
            figures
                .wasted_iterations
                .map_or_else(|| Cell::figure(None), |wasted| count("wasted_iterations", wasted)),
            count("claims", figures.claims),
            count("false_completions", figures.false_completions),
        ]);
    }
    table
}

/// Returns the table of cheating; none if there was none.
pub(super) fn build_cheating(summary: &JobSummary) -> Option<Table> {
    if !has_cheating(summary) {
        return None;
    }
    let headings =
        ["column", "score", "without these tasks", "interval", "trials in which the agent"];
    let mut table = Table::new("Score with and without tasks that can be cheated", &headings);
    table.note = Some(
        "Without the tasks on which a trial of the job cheated, or was shown to be able to. They are marked with * \
         below."
            .into(),
    );
    for (at, column) in summary.columns.iter().enumerate() {
        let path = column_path(at);
        let without_path = format!("{path}/score_without_cheatable");
        let without = column.score_without_cheatable.as_ref();
        let score = column.score.as_ref();
        table.rows.push(vec![
            column_cell(at, column),
            Cell::figure(
                score.map(|score| estimate_value(&format!("{path}/score"), score, format_percent)),
            ),
            Cell::figure(without.map(|score| estimate_value(&without_path, score, format_percent))),
            interval_cell(without.and_then(|s| interval_parts(&without_path, s, format_percent))),
            cheating_cell(&path, column),
        ]);
    }
    Some(table)
}

fn cheating_cell(path: &str, column: &ColumnSummary) -> Cell {
    let mut parts = Vec::new();
    for (kind, count) in &column.cheating {
        let separator = if parts.is_empty() { "" } else { ", " };
        let key = serde_json::to_value(kind).unwrap_or_default();
        let key = key.as_str().unwrap_or_default().to_owned();
        parts.push(Part::text(&format!("{separator}{}: ", name_cheat(*kind))));
        parts.push(Part::count(format!("{path}/cheating/{key}"), *count));
    }
    if parts.is_empty() {
        parts.push(Part::text(NONE));
    }
    Cell { parts, class: "small".into(), column: None }
}

/// Returns the comparisons, each as a sentence and a row of figures.
pub(super) fn build_comparisons(summary: &JobSummary) -> Table {
    let headings =
        ["candidate against baseline", "difference", "interval", "p", "tasks", "better", "worse"];
    let mut table = Table::new("Comparisons, in points of the score", &headings);
    for (at, comparison) in summary.comparisons.iter().enumerate() {
        let path = format!("/summary/comparisons/{at}");
        let difference_path = format!("{path}/difference");
        let difference = comparison.difference.as_ref();
        let name = format!("{} against {}", comparison.candidate, comparison.baseline);
        table.rows.push(vec![
            Cell::text(&name),
            strong(difference.map(|d| estimate_value(&difference_path, d, format_points))),
            interval_cell(
                difference.and_then(|d| interval_parts(&difference_path, d, format_points)),
            ),
            Cell::figure(comparison.p_value.map(|p| {
                let text = if p < 0.001 { "<0.001".to_owned() } else { format_number(p, 3) };
                Part::figure(format!("{path}/p_value"), p, text)
            })),
            Cell::count(format!("{path}/tasks"), comparison.tasks),
            Cell::count(format!("{path}/better"), comparison.better),
            Cell::count(format!("{path}/worse"), comparison.worse),
        ]);
    }
    table
}

/// Returns a difference in points, with its sign.
fn format_points(difference: f64) -> String {
    let text = format_number(difference * 100.0, 1);
    if difference > 0.0 { format!("+{text}") } else { text }
}

/// Returns how many things there are in the page out of all, if not all are.
pub(super) fn describe_omission(shown: usize, all: usize, what: &str) -> Option<String> {
    let count = |number: usize| format_count(u64::try_from(number).unwrap_or(u64::MAX));
    (shown < all).then(|| format!("{} of {} {what} are shown", count(shown), count(all)))
}
