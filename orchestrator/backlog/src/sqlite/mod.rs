//! Backlogs in the table `features` of an SQLite database, as AutoCoder keeps them.
//!
//! The file is written by agents, so views, triggers and virtual tables in it are not used. A
//! write is one transaction; the engine makes it atomic. SQLite opens files by path: it refuses links
//! in it, but a folder that becomes a link between its check and its opening is followed.

mod guard;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use self::rows::{FeatureTable, RowsError, insert_row, read_table, write_status, write_value};
use crate::backlog::Backlog;
use crate::check::check_items;
use crate::error::{
    BacklogDefect, BacklogError, DefectKind, describe_status, describe_taken, describe_unknown,
};
use crate::file::{BacklogFile, MAX_BYTES};
use crate::guard::{GuardReport, GuardRules, TrustedEdit};
use crate::item::{BacklogItem, BacklogSnapshot, ItemStatus, NewItem};
use crate::kind::BacklogKind;
use crate::order::ItemOrder;

/// How long another user of the database is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest text or row that is read, in bytes.
const MAX_VALUE: i32 = 16 * 1024 * 1024;
/// The bytes of the header that say whether there is a write-ahead log.
const JOURNAL_VERSIONS: std::ops::Range<usize> = 18..20;

/// A backlog in a database.
pub(crate) struct SqliteBacklog {
    file: BacklogFile,
    order: ItemOrder,
}

impl SqliteBacklog {
    pub(crate) fn new(file: BacklogFile, order: Option<ItemOrder>) -> Self {
        Self { file, order: order.unwrap_or(ItemOrder::LowestThenId) }
    }

    fn database(&self, source: rusqlite::Error) -> BacklogError {
        let path = self.file.path().to_owned();
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                BacklogError::Busy { path }
            }
            _ => BacklogError::Database { path, source },
        }
    }

    fn rows(&self, error: RowsError) -> BacklogError {
        match error {
            RowsError::Database(source) => self.database(source),
            RowsError::Defects(defects) => {
                BacklogError::Invalid { path: self.file.path().to_owned(), defects }
            }
        }
    }

    fn invalid_new(&self, problem: String) -> BacklogError {
        BacklogError::InvalidNewItem { path: self.file.path().to_owned(), problem }
    }

    fn not_storable(&self, what: String) -> BacklogError {
        let path = self.file.path().to_owned();
        BacklogError::NotStorable { path, format: self.format().to_owned(), what }
    }

    /// Opens the file, of which no part below the workspace is a link.
    fn open(&self, access: OpenFlags) -> Result<Connection, BacklogError> {
        self.file.check_size()?;
        let flags = access | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.file.real_path()?, flags)
            .and_then(|connection| harden(&connection).map(|()| connection));
        connection.map_err(|source| self.database(source))
    }

    /// Reads a consistent copy of a database, and the table in it, without checking rules between
    /// rows.
    fn copy(&self, connection: &mut Connection) -> Result<(Vec<u8>, FeatureTable), BacklogError> {
        let database = |source| self.database(source);
        // Serializing a file that is no database, or has no pages, fails for want of memory. The
        // write-ahead log may make a database larger than its file.
        let size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let size: i64 = connection.query_row(size, [], |row| row.get(0)).map_err(database)?;
        if u64::try_from(size).unwrap_or(u64::MAX) > MAX_BYTES {
            let path = self.file.path().to_owned();
            return Err(BacklogError::TooLarge { path, limit: MAX_BYTES });
        }
        let bytes = match size {
            0 => Vec::new(),
            _ => connection.serialize(MAIN_DB).map_err(database)?.to_vec(),
        };
        self.read_copy(bytes)
    }

    /// Reads a copy as [`copy`](Self::copy) does, and checks rules between rows.
    fn checked_copy(
        &self,
        connection: &mut Connection,
    ) -> Result<(Vec<u8>, FeatureTable), BacklogError> {
        let (bytes, table) = self.copy(connection)?;
        self.check(&table).map(|()| (bytes, table))
    }

    fn check(&self, table: &FeatureTable) -> Result<(), BacklogError> {
        let defects = check_items(&items_of(table));
        if defects.is_empty() { Ok(()) } else { Err(self.rows(RowsError::Defects(defects))) }
    }

    /// Reads the table of a copy. Returns the copy without a write-ahead log, which it does not
    /// have.
    fn read_copy(&self, mut bytes: Vec<u8>) -> Result<(Vec<u8>, FeatureTable), BacklogError> {
        if bytes.is_empty() {
            return Ok((bytes, FeatureTable::default()));
        }
        if let Some(versions) = bytes.get_mut(JOURNAL_VERSIONS) {
            versions.fill(1);
        }
        let read = |bytes: &[u8]| -> Result<FeatureTable, RowsError> {
            let mut connection = Connection::open_in_memory()?;
            connection.deserialize_read_exact(MAIN_DB, bytes, bytes.len(), true)?;
            harden(&connection)?;
            let check: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if check != "ok" {
                let kind = DefectKind::Syntax(check);
                let defect = BacklogDefect { location: None, item: None, kind };
                return Err(RowsError::Defects(vec![defect]));
            }
            read_table(&connection)
        };
        let table = read(&bytes).map_err(|error| self.rows(error))?;
        Ok((bytes, table))
    }

    fn snapshot(&self, bytes: Vec<u8>, table: &FeatureTable) -> BacklogSnapshot {
        let statuses = ItemStatus::ALL.into_iter();
        let storable = statuses.filter(|status| table.has_status(*status)).collect();
        BacklogSnapshot {
            bytes,
            items: items_of(table),
            order: self.order,
            storable,
            set_aside: BTreeMap::new(),
            unread: Vec::new(),
        }
    }

    /// Runs `edit` in a transaction and returns the version after it.
    fn write<T>(
        &self,
        edit: impl FnOnce(&Connection, &FeatureTable) -> Result<T, BacklogError>,
    ) -> Result<(T, BacklogSnapshot), BacklogError> {
        let mut connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let database = |source| self.database(source);
        connection.execute_batch("BEGIN IMMEDIATE").map_err(database)?;
        let (_, table) = self.checked_copy(&mut connection)?;
        let result = edit(&connection, &table)?;
        self.checked_copy(&mut connection)?;
        // Without it, closing the connection rolls back.
        connection.execute_batch("COMMIT").map_err(database)?;
        let (bytes, after) = self.checked_copy(&mut connection)?;
        Ok((result, self.snapshot(bytes, &after)))
    }

    fn find<'a>(&self, table: &'a FeatureTable, id: &str) -> Result<&'a BacklogItem, BacklogError> {
        let found = table.rows.iter().find(|row| row.item.id == id).map(|row| &row.item);
        found.ok_or_else(|| BacklogError::UnknownItem {
            path: self.file.path().to_owned(),
            id: id.to_owned(),
        })
    }

    /// Inserts a new item and returns its id.
    fn insert(
        &self,
        connection: &Connection,
        table: &FeatureTable,
        item: &NewItem,
    ) -> Result<String, BacklogError> {
        let NewRow { id, row } = self.new_row(table, item)?;
        let (columns, values): (Vec<String>, Vec<SqlValue>) =
            row.into_iter().map(|(column, value)| (column.to_owned(), value)).unzip();
        insert_row(connection, &columns, &values).map_err(|source| self.database(source))?;
        Ok(id)
    }

    fn new_row(&self, table: &FeatureTable, item: &NewItem) -> Result<NewRow, BacklogError> {
        if item.title.trim().is_empty() {
            return Err(self.invalid_new("the title is empty; give it one".to_owned()));
        }
        if !table.has_column("id") {
            return Err(self.invalid_new("the database has no table `features`".to_owned()));
        }
        let items = table.rows.iter().map(|row| &row.item);
        let highest = items.clone().filter_map(|item| item.id.parse::<i64>().ok()).max();
        let id = match &item.id {
            Some(id) => id
                .parse()
                .map_err(|_| self.invalid_new(format!("the id `{id}` is not a whole number")))?,
            None => highest.unwrap_or(0).saturating_add(1),
        };
        if let Some(taken) = items.clone().find(|item| item.id == id.to_string()) {
            return Err(self.invalid_new(describe_taken(taken)));
        }
        let has = |id: &str| table.rows.iter().any(|row| row.item.id == id);
        if let Some(unknown) = item.dependencies.iter().find(|id| !has(id)) {
            return Err(self.invalid_new(describe_unknown(unknown, &items_of(table))));
        }
        let last = items.map(|item| item.priority).max().unwrap_or(0);
        let text = |text: &str| SqlValue::Text(text.to_owned());
        let category = item.category.as_deref().unwrap_or("uncategorized");
        let mut row = vec![
            ("id", SqlValue::Integer(id)),
            ("priority", SqlValue::Integer(item.priority.unwrap_or(last.saturating_add(1)))),
            ("category", text(category)),
            ("name", text(&item.title)),
            ("description", text(&item.description)),
            ("steps", SqlValue::Text(serde_json::Value::from(item.criteria.clone()).to_string())),
            ("passes", SqlValue::Integer(0)),
            ("in_progress", SqlValue::Integer(0)),
        ];
        if !item.dependencies.is_empty() {
            let names = ["dependencies", "depends_on"];
            let column = names.into_iter().find(|name| table.has_column(name));
            let column = column.ok_or_else(|| self.not_storable("dependencies".to_owned()))?;
            row.push((column, SqlValue::Text(list_ids(&item.dependencies))));
        }
        if !item.criteria.is_empty() && !table.has_column("steps") {
            return Err(self.not_storable("acceptance criteria".to_owned()));
        }
        row.retain(|(column, _)| table.has_column(column));
        Ok(NewRow { id: id.to_string(), row })
    }
}

struct NewRow {
    id: String,
    row: Vec<(&'static str, SqlValue)>,
}

/// Writes ids as a JSON list, numbers as such.
fn list_ids(ids: &[String]) -> String {
    let value = |id: &String| match id.parse::<i64>() {
        Ok(number) => serde_json::Value::from(number),
        Err(_) => serde_json::Value::from(id.as_str()),
    };
    serde_json::Value::from(ids.iter().map(value).collect::<Vec<_>>()).to_string()
}

fn items_of(table: &FeatureTable) -> Vec<BacklogItem> {
    table.rows.iter().map(|row| row.item.clone()).collect()
}

/// Keeps a database that an agent wrote from running code of its own.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
    for (config, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    ] {
        connection.set_db_config(config, value)?;
    }
    connection.pragma_update(None, "cell_size_check", true)
}

impl Backlog for SqliteBacklog {
    fn format(&self) -> &'static str {
        BacklogKind::Sqlite.name()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn load(&self) -> Result<BacklogSnapshot, BacklogError> {
        let mut connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let (bytes, table) = self.checked_copy(&mut connection)?;
        Ok(self.snapshot(bytes, &table))
    }

    fn example(&self) -> &'static str {
        include_str!("example.sql")
    }

    fn parse(&self, bytes: &[u8]) -> Result<BacklogSnapshot, BacklogError> {
        let (bytes, table) = self.read_copy(bytes.to_vec())?;
        self.check(&table)?;
        Ok(self.snapshot(bytes, &table))
    }

    fn set_status(&self, id: &str, status: ItemStatus) -> Result<BacklogSnapshot, BacklogError> {
        let ((), after) = self.write(|connection, table| {
            if self.find(table, id)?.status == status {
                return Ok(());
            }
            if !table.has_status(status) {
                return Err(self.not_storable(describe_status(status)));
            }
            write_status(connection, table, id, status).map_err(|source| self.database(source))
        })?;
        Ok(after)
    }

    fn append_note(&self, id: &str, note: &str) -> Result<BacklogSnapshot, BacklogError> {
        let ((), after) = self.write(|connection, table| {
            let item = self.find(table, id)?;
            if note.trim().is_empty() {
                return Ok(());
            }
            if !table.has_column("notes") {
                return Err(self.not_storable("notes: the table has no column `notes`".to_owned()));
            }
            let notes = item.notes.iter().map(String::as_str).chain([note]);
            let joined = SqlValue::Text(notes.collect::<Vec<_>>().join("\n"));
            write_value(connection, id, "notes", &joined).map_err(|source| self.database(source))
        })?;
        Ok(after)
    }

    fn add_item(&self, item: &NewItem) -> Result<(String, BacklogSnapshot), BacklogError> {
        self.write(|connection, table| self.insert(connection, table, item))
    }

    fn preview_add(
        &self,
        base: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError> {
        let (bytes, table) = self.read_copy(base.to_vec())?;
        let database = |source| self.database(source);
        let mut copy = Connection::open_in_memory().map_err(database)?;
        if !bytes.is_empty() {
            copy.deserialize_read_exact(MAIN_DB, &*bytes, bytes.len(), false).map_err(database)?;
        }
        harden(&copy).map_err(database)?;
        let id = self.insert(&copy, &table, item)?;
        let (bytes, after) = self.checked_copy(&mut copy)?;
        Ok((id, self.snapshot(bytes, &after)))
    }

    fn guard(
        &self,
        base: &BacklogSnapshot,
        edits: &[TrustedEdit],
        rules: GuardRules,
    ) -> Result<GuardReport, BacklogError> {
        self.guard_database(base, edits, rules)
    }
}
