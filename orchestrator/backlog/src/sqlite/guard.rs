//! Guards a database: compares row by row, and restores rows in one transaction.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OpenFlags};

use super::SqliteBacklog;
use super::rows::{FeatureTable, RowsError, delete_row, insert_row, restore_row, write_status};
use crate::error::{BacklogDefect, BacklogError, DefectKind};
use crate::guard::{Comparison, GuardFinding, GuardReport, GuardRules, TrustedEdit, compare_items};
use crate::item::{BacklogItem, BacklogSnapshot};

/// Files that SQLite keeps beside a database. They belong to the content that is replaced.
const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

impl SqliteBacklog {
    pub(super) fn guard_database(
        &self,
        base: &BacklogSnapshot,
        edits: &[TrustedEdit],
        rules: GuardRules,
    ) -> Result<GuardReport, BacklogError> {
        let (bytes, mut table) = self.read_copy(base.bytes.clone())?;
        for edit in edits {
            let (_, before) = self.read_copy(edit.before.clone())?;
            let (_, after) = self.read_copy(edit.after.clone())?;
            merge_edit(&mut table, &before, after);
        }
        self.check(&table)?;
        match self.restore_rows(&table, rules) {
            Err(error) if is_corruption(&error) => {
                self.file.replace(&bytes, &SIDE_FILES)?;
                let restored = self.restore_rows(&table, GuardRules::default())?;
                let problem = error.to_string();
                let findings = vec![GuardFinding::Corrupted { problem }];
                Ok(GuardReport { findings, is_restored: true, replaced: None, ..restored })
            }
            result => result,
        }
    }

    /// Gives the file the rows of `base`, with the statuses and notes that an agent may change.
    fn restore_rows(
        &self,
        base: &FeatureTable,
        rules: GuardRules,
    ) -> Result<GuardReport, BacklogError> {
        let database = |source| self.database(source);
        let mut connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(database)?;
        let (bytes, after) = self.copy(&mut connection)?;
        if let Some(column) = base.columns.iter().find(|column| !after.has_column(column)) {
            let expected = format!("a column `{column}` in the table `features`");
            let kind = DefectKind::Structure(expected);
            let defect = BacklogDefect { location: None, item: None, kind };
            return Err(self.rows(RowsError::Defects(vec![defect])));
        }
        self.check_ids(&after)?;
        let comparison =
            compare_items(&base.guarded_items(base), &after.guarded_items(base), rules);
        if !comparison.is_structural && comparison.reverted.is_empty() {
            return Ok(GuardReport {
                findings: comparison.findings,
                is_restored: false,
                replaced: None,
                current: self.snapshot(bytes, &after),
            });
        }
        write_rows(&connection, base, &after, &comparison).map_err(database)?;
        self.checked_copy(&mut connection)?;
        connection.execute_batch("COMMIT").map_err(database)?;
        let (restored, table) = self.checked_copy(&mut connection)?;
        Ok(GuardReport {
            findings: comparison.findings,
            is_restored: true,
            replaced: Some(bytes),
            current: self.snapshot(restored, &table),
        })
    }
}

impl SqliteBacklog {
    /// Rows are found by id, so an id that two rows have cannot be restored row by row.
    fn check_ids(&self, table: &FeatureTable) -> Result<(), BacklogError> {
        let mut seen = HashSet::new();
        let repeated = table.rows.iter().find(|row| !seen.insert(row.item.id.as_str()));
        repeated.map_or(Ok(()), |row| {
            let kind = DefectKind::DuplicateId;
            let item = Some(row.item.id.clone());
            let defect = BacklogDefect { location: None, item, kind };
            Err(self.rows(RowsError::Defects(vec![defect])))
        })
    }
}

/// Returns whether the file itself is at fault, and not its users or the disk.
fn is_corruption(error: &BacklogError) -> bool {
    match error {
        BacklogError::NotFound { .. }
        | BacklogError::UnsafePath { .. }
        | BacklogError::TooLarge { .. }
        | BacklogError::Invalid { .. } => true,
        BacklogError::Database { source, .. } => !matches!(
            source.sqlite_error_code(),
            Some(
                rusqlite::ErrorCode::DiskFull
                    | rusqlite::ErrorCode::SystemIoFailure
                    | rusqlite::ErrorCode::OutOfMemory
                    | rusqlite::ErrorCode::ReadOnly
                    | rusqlite::ErrorCode::PermissionDenied
            )
        ),
        _ => false,
    }
}

fn write_rows(
    connection: &Connection,
    base: &FeatureTable,
    after: &FeatureTable,
    comparison: &Comparison,
) -> rusqlite::Result<()> {
    for position in &comparison.added {
        if let Some(row) = after.rows.get(*position) {
            delete_row(connection, &row.item.id)?;
        }
    }
    let edited: HashSet<&str> = comparison
        .findings
        .iter()
        .filter_map(|finding| match finding {
            GuardFinding::Edited { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    for (position, row) in base.rows.iter().enumerate() {
        let found = comparison.positions.get(position).copied().flatten();
        let now = found.and_then(|found| after.rows.get(found));
        let Some(now) = now else {
            insert_row(connection, &base.columns, &row.values)?;
            write_status(connection, base, &row.item.id, row.item.status)?;
            continue;
        };
        if edited.contains(row.item.id.as_str()) {
            restore_row(connection, &base.columns, row)?;
        }
        let status = comparison.status_of(position, &row.item, &now.item);
        if status != now.item.status {
            write_status(connection, base, &row.item.id, status)?;
        }
    }
    Ok(())
}

/// Applies an edit that somebody made to another version of the table.
fn merge_edit(table: &mut FeatureTable, before: &FeatureTable, after: FeatureTable) {
    let was = index_rows(before);
    let is: HashSet<String> = after.rows.iter().map(|row| row.item.id.clone()).collect();
    table.rows.retain(|row| {
        let id = row.item.id.as_str();
        !was.contains_key(id) || is.contains(id)
    });
    let has: HashMap<String, usize> =
        table.rows.iter().enumerate().map(|(n, row)| (row.item.id.clone(), n)).collect();
    for new in after.rows {
        let old = was.get(new.item.id.as_str()).and_then(|n| before.rows.get(*n));
        if old.is_some_and(|old| old.values == new.values) {
            continue;
        }
        let Some(row) = has.get(&new.item.id).and_then(|n| table.rows.get_mut(*n)) else {
            table.rows.push(new);
            continue;
        };
        let is_status_kept = old.is_some_and(|old| old.item.status == new.item.status);
        let status = if is_status_kept { row.item.status } else { new.item.status };
        // The flags that say the status are not restored from values.
        row.values = new.values;
        row.item = BacklogItem { status, ..new.item };
    }
}

fn index_rows(table: &FeatureTable) -> HashMap<&str, usize> {
    table.rows.iter().enumerate().map(|(n, row)| (row.item.id.as_str(), n)).collect()
}
