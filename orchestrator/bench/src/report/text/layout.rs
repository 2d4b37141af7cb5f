//! Lays a table out in a given width.

use ralph_orchestrator_text::{columns, wrap};

use crate::report::cells::{CellKind, Grid};

/// Between two columns.
const GAP: usize = 2;
/// To the left of a table.
const INDENT: usize = 2;
/// The least width that a column of text is narrowed to.
const LEAST_TEXT: usize = 9;

/// Appends a table. Columns of text are narrowed, and their cells broken into lines, as far as that is needed; where
/// it does not suffice, each row becomes a list of its cells.
pub(super) fn push_table(out: &mut String, grid: &Grid, width: usize) {
    match fit_widths(grid, width.saturating_sub(INDENT)) {
        Some(widths) => push_rows(out, grid, &widths),
        None => push_lists(out, grid, width),
    }
}

/// How wide a table's column is, and how narrow it may become.
struct ColumnWidth {
    now: usize,
    least: usize,
}

/// Returns the width of each column. None if the table cannot be made narrow enough.
fn fit_widths(grid: &Grid, width: usize) -> Option<Vec<usize>> {
    let mut columns: Vec<_> = (0..grid.headings.len()).map(|at| measure_column(grid, at)).collect();
    let gaps = GAP * columns.len().saturating_sub(1);
    while columns.iter().map(|column| column.now).sum::<usize>() + gaps > width {
        let narrowable = columns.iter_mut().filter(|column| column.now > column.least);
        narrowable.max_by_key(|column| column.now)?.now -= 1;
    }
    Some(columns.into_iter().map(|column| column.now).collect())
}

fn measure_column(grid: &Grid, at: usize) -> ColumnWidth {
    let (heading, kind) =
        grid.headings.get(at).map_or(("", CellKind::Text), |(text, kind)| (text.as_str(), *kind));
    let cells = grid.rows.iter().filter_map(|row| row.get(at));
    let content = cells.map(|cell| columns(cell)).max().unwrap_or(0).max(1);
    let now = content.max(columns(heading));
    let least = match kind {
        CellKind::Text => now.min(LEAST_TEXT),
        // A heading may be broken between its words, a figure may not.
        CellKind::Figure => heading.split(' ').map(columns).max().unwrap_or(0).max(content),
    };
    ColumnWidth { now, least }
}

fn push_rows(out: &mut String, grid: &Grid, widths: &[usize]) {
    let headings: Vec<_> = grid.headings.iter().map(|(heading, _)| heading.as_str()).collect();
    push_row(out, grid, widths, &headings);
    let rules: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
    push_row(out, grid, widths, &rules.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &grid.rows {
        push_row(out, grid, widths, &row.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

fn push_row(out: &mut String, grid: &Grid, widths: &[usize], cells: &[&str]) {
    let cells: Vec<_> =
        cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width, 0)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for at in 0..height {
        let mut line = " ".repeat(INDENT);
        for ((cell, width), (_, kind)) in cells.iter().zip(widths).zip(&grid.headings) {
            let text = cell.get(at).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(columns(text)));
            match kind {
                CellKind::Text => line.extend([text, &padding]),
                CellKind::Figure => line.extend([padding.as_str(), text]),
            }
            line.push_str(&" ".repeat(GAP));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Appends each row as a heading, which is its first cell, and the other cells with their names.
fn push_lists(out: &mut String, grid: &Grid, width: usize) {
    for row in &grid.rows {
        for (number, (cell, (heading, _))) in row.iter().zip(&grid.headings).enumerate() {
            let (indent, text) = match number {
                0 => (INDENT, cell.clone()),
                _ => (2 * INDENT, format!("{heading}: {cell}")),
            };
            for line in wrap(&text, width.saturating_sub(indent), 0) {
                // A name may be nothing but white space.
                out.push_str(format!("{}{line}", " ".repeat(indent)).trim_end());
                out.push('\n');
            }
        }
    }
}
