//! The map of tasks × columns.

use crate::report::cells::{TaskRow, collect_task_rows, has_cheating, name_column};
use crate::report::figures::{format_count, format_percent};
use crate::report::html::table::{Cell, Part, Table};
use crate::report::html::tables::describe_omission;
use crate::summary::{JobSummary, TaskSummary};

/// The most tasks with a row of their own.
pub(super) const MOST_TASKS: usize = 500;
/// How many shades there are between no and the full reward.
const SHADES: [f64; 10] = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];

/// Returns the table; each cell has a class that shades it by its mean reward.
pub(super) fn build_task_map(summary: &JobSummary) -> Table {
    let mut table = Table::new("Mean reward by task", &["task"]);
    table.headings.extend(summary.columns.iter().map(name_column));
    let rows = collect_task_rows(summary);
    let mut note =
        String::from("After the mean reward: solved of judged trials, and those with a fault.");
    if has_cheating(summary) {
        note.push_str(" * a trial cheated on the task, or was shown to be able to.");
    }
    if let Some(omission) = describe_omission(MOST_TASKS.min(rows.len()), rows.len(), "tasks") {
        note.push_str(&format!(
            " {omission}, the first ones of the job; the figures above are of all."
        ));
    }
    table.note = Some(note);
    table.rows = rows.iter().take(MOST_TASKS).map(build_row).collect();
    table
}

fn build_row(row: &TaskRow<'_>) -> Vec<Cell> {
    let mark = if row.is_cheatable() { " *" } else { "" };
    let mut cells = vec![Cell::text(&format!("{}{mark}", row.task))];
    for (at, cell) in row.columns.iter().enumerate() {
        cells.push(cell.map_or_else(
            || Cell { class: "heat none".into(), ..Cell::figure(None) },
            |(position, task)| build_cell(&format!("/summary/columns/{at}/tasks/{position}"), task),
        ));
    }
    cells
}

fn build_cell(path: &str, task: &TaskSummary) -> Cell {
    let mut parts = Vec::new();
    let class = match task.mean_reward {
        Some(reward) => {
            let path = format!("{path}/mean_reward");
            parts.push(Part::figure(path, reward, format_percent(reward)));
            format!("heat h{}", SHADES.iter().filter(|least| reward >= **least).count())
        }
        None => {
            parts.push(Part::text("not judged"));
            "heat none".to_owned()
        }
    };
    parts.push(Part::text(" · "));
    parts.push(Part::count(format!("{path}/solved"), task.solved));
    parts.push(Part::text("/"));
    parts.push(Part::count(format!("{path}/judged"), task.judged));
    let faults: u64 = task.faults.values().sum();
    if faults > 0 {
        let plural = if faults == 1 { "" } else { "s" };
        parts.push(Part::text(&format!(" · {} fault{plural}", format_count(faults))));
    }
    Cell { parts, class, column: None }
}
