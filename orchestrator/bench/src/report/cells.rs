//! The tables of a report as cells of text, for every format of lines and columns.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_text::escape_line;

use crate::report::figures::{
    NONE, compute_coverage, format_cheating, format_cost, format_count, format_duration,
    format_estimate, format_faults, format_number, format_percent, format_usd, to_float,
};
use crate::statistics::Estimate;
use crate::summary::{ColumnSummary, JobSummary, TaskSummary};

/// The most values of k in a table; the JSON has all.
const MOST_K: usize = 6;

/// How the intervals of scores and of pass@k are found.
pub(super) const SCORE_INTERVALS: &str = "interval: Wilson's with the number of trials that tell as much as these tasks do, by Student's t over tasks";

/// What a table's column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellKind {
    /// Text, which may be broken into lines.
    Text,
    /// A figure, which is kept whole.
    Figure,
}

/// A table of text in one line each, without control characters.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// What it shows.
    pub(super) title: &'static str,
    /// The headings, with what is below them.
    pub(super) headings: Vec<(String, CellKind)>,
    /// The rows, each with as many cells as there are headings.
    pub(super) rows: Vec<Vec<String>>,
    /// What has to be known to read it.
    pub(super) note: Option<&'static str>,
}

impl Grid {
    fn new(title: &'static str, first: &str, figures: &[&str]) -> Self {
        let figures = figures.iter().map(|name| ((*name).to_owned(), CellKind::Figure));
        let headings = [(first.to_owned(), CellKind::Text)].into_iter().chain(figures).collect();
        Self { title, headings, rows: Vec::new(), note: None }
    }
}

/// Returns the tables that sum a job up. Those without any row are left out.
pub(super) fn build_summary_grids(summary: &JobSummary) -> Vec<Grid> {
    let grids = [
        build_score_grid(summary),
        build_pass_grid(summary),
        build_cost_grid(summary),
        build_loop_grid(summary),
        build_cheating_grid(summary),
    ];
    grids.into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

/// Returns a column's name in one line.
pub(super) fn name_column(column: &ColumnSummary) -> String {
    escape_line(&column.column.to_string())
}

fn build_score_grid(summary: &JobSummary) -> Grid {
    let figures = ["score", "interval", "solved", "judged", "planned", "coverage"];
    let mut grid = Grid::new("Score", "column", &figures);
    grid.note = Some(SCORE_INTERVALS);
    grid.headings.push(("faults".into(), CellKind::Text));
    for column in &summary.columns {
        let score = column.score.as_ref();
        grid.rows.push(vec![
            name_column(column),
            score.map_or_else(|| NONE.into(), |score| format_percent(score.value)),
            score.and_then(super::figures::format_interval).unwrap_or_else(|| NONE.into()),
            format_count(column.solved),
            format_count(column.judged),
            format_count(column.planned),
            compute_coverage(column.judged, column.planned)
                .map_or_else(|| NONE.into(), format_percent),
            format_faults(&column.faults),
        ]);
    }
    grid
}

fn build_pass_grid(summary: &JobSummary) -> Grid {
    let mut grid = Grid::new("Several trials", "column", &["k", "pass@k", "pass^k"]);
    grid.note = Some("pass@k: at least one of k trials solves a task; pass^k: all of them do");
    for column in &summary.columns {
        for k in select_k(column) {
            grid.rows.push(vec![
                name_column(column),
                k.to_string(),
                format_optional_estimate(column.pass_at.get(&k)),
                format_optional_estimate(column.pass_hat.get(&k)),
            ]);
        }
    }
    grid
}

/// Returns the values of k to show: all if they are few, else the smallest and the largest ones.
pub(super) fn select_k(column: &ColumnSummary) -> Vec<u32> {
    let keys = |by_k: &BTreeMap<u32, Estimate>| by_k.keys().copied().collect::<BTreeSet<_>>();
    let all: Vec<_> = keys(&column.pass_at).union(&keys(&column.pass_hat)).copied().collect();
    let Some(last) = all.last().copied() else { return Vec::new() };
    let few = all.len() <= MOST_K;
    let mut selected: Vec<_> =
        all.into_iter().filter(|k| few || matches!(k, 1 | 2 | 3 | 5 | 10)).collect();
    if selected.last() != Some(&last) {
        selected.push(last);
    }
    selected
}

fn format_optional_estimate(estimate: Option<&Estimate>) -> String {
    estimate.map_or_else(|| NONE.into(), format_estimate)
}

fn build_cost_grid(summary: &JobSummary) -> Grid {
    let figures = ["per solved", "cost", "tokens", "output", "median run", "retries"];
    let mut grid = Grid::new("Cost", "column", &figures);
    grid.note = Some(
        "cost and tokens: of all attempts; per solved: cost for each solved trial, with an interval in the JSON by a bootstrap \
         over tasks; output: among the tokens",
    );
    for column in &summary.columns {
        grid.rows.push(vec![
            name_column(column),
            column.cost_per_solved_usd.map_or_else(|| NONE.into(), format_usd),
            format_cost(column.cost_usd, column.cost_unknown, column.cost_estimated),
            format_tokens(column, column.tokens.total()),
            format_tokens(column, column.tokens.output),
            column.median_run_ms.map_or_else(|| NONE.into(), format_duration),
            format_count(column.retries),
        ]);
    }
    grid
}

/// No agent that reports tokens uses none.
fn format_tokens(column: &ColumnSummary, tokens: u64) -> String {
    if column.tokens.total() == 0 { NONE.into() } else { format_count(tokens) }
}

fn build_loop_grid(summary: &JobSummary) -> Grid {
    let figures = ["iterations", "to solve", "wasted", "claims", "false completions"];
    let mut grid = Grid::new("Loop", "column", &figures);
    grid.note = Some(
        "iterations: mean of a trial; to solve: median; wasted: after the work had the full reward; \
         false completions: completed runs with less than the full reward",
    );
    let number =
        |value: Option<f64>| value.map_or_else(|| NONE.into(), |value| format_number(value, 1));
    for column in &summary.columns {
        let figures = &column.loop_figures;
        grid.rows.push(vec![
            name_column(column),
            number(figures.mean_iterations),
            number(figures.median_iterations_to_solve),
            figures.wasted_iterations.map_or_else(|| NONE.into(), format_count),
            format_count(figures.claims),
            format_count(figures.false_completions),
        ]);
    }
    grid
}

/// Returns the table of cheating; without rows if there was none.
fn build_cheating_grid(summary: &JobSummary) -> Grid {
    let mut grid = Grid::new("Cheating", "column", &["score", "without these tasks"]);
    grid.headings.push(("trials in which the agent".into(), CellKind::Text));
    if !has_cheating(summary) {
        return grid;
    }
    grid.note = Some("without the tasks on which a trial cheated, or was shown to be able to");
    for column in &summary.columns {
        grid.rows.push(vec![
            name_column(column),
            column.score.map_or_else(|| NONE.into(), |score| format_percent(score.value)),
            column
                .score_without_cheatable
                .map_or_else(|| NONE.into(), |score| format_percent(score.value)),
            format_cheating(&column.cheating),
        ]);
    }
    grid
}

/// Returns whether any trial cheated, or a task was shown to allow it.
pub(super) fn has_cheating(summary: &JobSummary) -> bool {
    summary.columns.iter().any(|column| {
        !column.cheating.is_empty() || column.tasks.iter().any(|task| task.is_cheatable)
    })
}

/// A task in all columns.
#[derive(Clone, Debug)]
pub(super) struct TaskRow<'a> {
    /// The task's name, as it is.
    pub(super) task: &'a str,
    /// For each column of the job its position among the column's tasks, and its figures; none if the column has no
    /// such task.
    pub(super) columns: Vec<Option<(usize, &'a TaskSummary)>>,
}

impl TaskRow<'_> {
    /// Returns whether a trial of any column cheated on the task, or was shown to be able to.
    pub(super) fn is_cheatable(&self) -> bool {
        self.columns.iter().flatten().any(|(_, task)| task.is_cheatable)
    }
}

/// Returns the tasks of all columns, in the order in which they come first.
pub(super) fn collect_task_rows(summary: &JobSummary) -> Vec<TaskRow<'_>> {
    let mut rows: Vec<TaskRow<'_>> = Vec::new();
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, column) in summary.columns.iter().enumerate() {
        for (at, task) in column.tasks.iter().enumerate() {
            let position = *positions.entry(&task.task).or_insert_with(|| {
                let columns = vec![None; summary.columns.len()];
                rows.push(TaskRow { task: &task.task, columns });
                rows.len() - 1
            });
            let cell = rows.get_mut(position).and_then(|row| row.columns.get_mut(number));
            if let Some(cell) = cell {
                *cell = Some((at, task));
            }
        }
    }
    rows
}

/// Returns the table of tasks × columns.
pub(super) fn build_task_grid(summary: &JobSummary) -> Grid {
    let mut grid = Grid::new("Tasks", "task", &[]);
    let names = summary.columns.iter().map(name_column);
    grid.headings.extend(names.map(|name| (name, CellKind::Text)));
    grid.note = Some(
        "solved/judged, then the mean reward where it says more, and trials with a fault; * a trial cheated on the \
         task, or was shown to be able to",
    );
    for row in collect_task_rows(summary) {
        let mark = if row.is_cheatable() { " *" } else { "" };
        let name = format!("{}{mark}", escape_line(row.task));
        let cells = row
            .columns
            .iter()
            .map(|cell| cell.map_or_else(|| NONE.to_owned(), |(_, task)| format_task(task)));
        grid.rows.push([name].into_iter().chain(cells).collect());
    }
    grid
}

/// Returns a task's result in a few characters, such as `4/5`, `0/5 0.60` or `3/4 1 fault`.
fn format_task(task: &TaskSummary) -> String {
    let mut text = format!("{}/{}", task.solved, task.judged);
    if let Some(reward) = task.mean_reward
        && (reward - to_float(task.solved) / to_float(task.judged.max(1))).abs() > 0.0005
    {
        text = format!("{text} {}", format_number(reward, 2));
    }
    let faults: u64 = task.faults.values().sum();
    match faults {
        0 => text,
        1 => format!("{text} 1 fault"),
        _ => format!("{text} {faults} faults"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{empty_column, estimate, sample_summary};

    #[test]
    fn every_row_has_a_cell_for_each_heading() {
        let summary = sample_summary();
        let grids = build_summary_grids(&summary);
        assert_eq!(grids.len(), 5);
        for grid in grids.iter().chain([&build_task_grid(&summary)]) {
            assert!(!grid.rows.is_empty());
            for row in &grid.rows {
                assert_eq!(row.len(), grid.headings.len(), "{}", grid.title);
            }
        }
    }

    #[test]
    fn selects_few_values_of_k_with_the_largest() {
        let mut column = empty_column("a");
        assert!(select_k(&column).is_empty());
        for k in 1..=40 {
            column.pass_at.insert(k, estimate(0.5, 0.4, 0.6));
        }
        assert_eq!(select_k(&column), [1, 2, 3, 5, 10, 40]);
        column.pass_at.retain(|k, _| *k <= 4);
        column.pass_hat.insert(5, estimate(0.5, 0.4, 0.6));
        assert_eq!(select_k(&column), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn joins_columns_with_different_tasks() {
        let mut summary = sample_summary();
        summary.columns[1].tasks.remove(0);
        summary.columns[0].tasks.truncate(1);
        let rows = collect_task_rows(&summary);
        assert_eq!(rows.len(), 12);
        assert!(rows[0].columns[1].is_none());
        assert_eq!(rows[1].columns[1].map(|(at, _)| at), Some(0));
        assert!(rows[1].columns[0].is_none());
    }
}
