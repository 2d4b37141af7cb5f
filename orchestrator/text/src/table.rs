//! Cells in columns.

use crate::width::columns;

/// Returns the columns that the widest cell of each column of a table takes.
#[must_use]
pub fn cell_widths<const COUNT: usize>(rows: &[[String; COUNT]]) -> [usize; COUNT] {
    let mut widths = [0; COUNT];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = columns(cell).max(*width);
        }
    }
    widths
}

/// Returns a row of a table: each cell filled up to its width, two spaces apart, without spaces at the end.
pub fn join_cells(cells: impl IntoIterator<Item = (String, usize)>) -> String {
    let filled = cells.into_iter().map(|(cell, width)| {
        let pad = " ".repeat(width.saturating_sub(columns(&cell)));
        format!("{cell}{pad}")
    });
    filled.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_wide_as_they_are_shown() {
        let rows = [["a", "漢字", ""], ["bcd", "e", ""]].map(|row| row.map(str::to_owned));
        let widths = cell_widths(&rows);
        assert_eq!(widths, [3, 4, 0]);
        let joined = rows.map(|row| join_cells(row.into_iter().zip(widths)));
        assert_eq!(joined, ["a    漢字", "bcd  e"]);
        assert_eq!(join_cells([("longer".to_owned(), 2), ("x".to_owned(), 1)]), "longer  x");
    }
}
