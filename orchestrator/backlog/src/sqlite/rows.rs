//! Rows of the table `features`, read from and written to an open database.

use std::fmt::Write as _;

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};
use serde_json::{Map, Value};

use crate::error::{BacklogDefect, DefectKind};
use crate::guard::GuardedItem;
use crate::item::{BacklogItem, ItemStatus};

/// Columns that an agent may change.
const OPEN_COLUMNS: [&str; 3] = ["passes", "in_progress", "notes"];

/// The table as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct FeatureTable {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<FeatureRow>,
}

/// One row: its values in the order of the columns, and the item that they are.
#[derive(Clone, Debug)]
pub(super) struct FeatureRow {
    pub(super) values: Vec<SqlValue>,
    pub(super) item: BacklogItem,
}

impl FeatureTable {
    pub(super) fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }

    pub(super) fn has_status(&self, status: ItemStatus) -> bool {
        match status {
            ItemStatus::Pending | ItemStatus::Completed => true,
            ItemStatus::InProgress => self.has_column("in_progress"),
            ItemStatus::Blocked => false,
        }
    }

    /// Returns the rows as a guard compares them, with the columns of `base`.
    pub(super) fn guarded_items(&self, base: &Self) -> Vec<GuardedItem> {
        let guarded = |row: &FeatureRow| {
            let all = self.columns.iter().zip(&row.values);
            let fields: Map<String, Value> =
                all.map(|(column, value)| (column.clone(), json_of(value))).collect();
            let source = Value::from(fields.clone()).to_string();
            let is_closed = |column: &String| {
                base.has_column(column) && !OPEN_COLUMNS.contains(&column.as_str())
            };
            let fields = fields.into_iter().filter(|(column, _)| is_closed(column)).collect();
            GuardedItem { item: row.item.clone(), fields, source }
        };
        self.rows.iter().map(guarded).collect()
    }
}

fn json_of(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => Value::from(*number),
        SqlValue::Real(number) => Value::from(*number),
        SqlValue::Text(text) => Value::from(text.as_str()),
        SqlValue::Blob(bytes) => {
            Value::from(bytes.iter().fold(String::from("0x"), |mut hex, b| {
                // Writing to a string does not fail.
                let _ = write!(hex, "{b:02x}");
                hex
            }))
        }
    }
}

/// Why the table cannot be read.
#[derive(Debug)]
pub(super) enum RowsError {
    Database(rusqlite::Error),
    Defects(Vec<BacklogDefect>),
}

impl From<rusqlite::Error> for RowsError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

fn structure(expected: &str) -> RowsError {
    let kind = DefectKind::Structure(expected.to_owned());
    RowsError::Defects(vec![BacklogDefect { location: None, item: None, kind }])
}

/// Reads the table, ordered by id. A database without any table has no rows.
pub(super) fn read_table(connection: &Connection) -> Result<FeatureTable, RowsError> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    if tables == 0 {
        return Ok(FeatureTable::default());
    }
    // A view or a virtual table would run code of whoever wrote the file.
    let ordinary = "SELECT count(*) FROM pragma_table_list('features') \
                    WHERE schema = 'main' AND type = 'table'";
    let ordinary: i64 = connection.query_row(ordinary, [], |row| row.get(0))?;
    if ordinary != 1 {
        return Err(structure("a table `features`"));
    }
    // Generated columns are not in this list.
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info('features')")?;
    let columns = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let missing =
        ["id", "name", "passes"].into_iter().find(|name| !columns.iter().any(|c| c == name));
    if let Some(column) = missing {
        return Err(structure(&format!("a column `{column}` in the table `features`")));
    }
    let list: Vec<String> = columns.iter().map(|column| quote_name(column)).collect();
    let select = format!("SELECT {} FROM main.features ORDER BY id", list.join(", "));
    let mut statement = connection.prepare(&select)?;
    let mut rows = statement.query([])?;
    let mut table = FeatureTable { columns, rows: Vec::new() };
    let mut defects = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..table.columns.len()).map(|n| row.get(n)).collect::<Result<Vec<_>, _>>()?;
        match read_item(&table.columns, &values) {
            Ok(item) => table.rows.push(FeatureRow { values, item }),
            Err(defect) => defects.push(defect),
        }
    }
    if defects.is_empty() { Ok(table) } else { Err(RowsError::Defects(defects)) }
}

fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn read_item(columns: &[String], values: &[SqlValue]) -> Result<BacklogItem, BacklogDefect> {
    let find = |name: &str| columns.iter().position(|c| c == name).and_then(|n| values.get(n));
    let defect = |item: Option<String>, field: &str, expected: &str| BacklogDefect {
        location: None,
        item,
        kind: DefectKind::WrongType { field: field.to_owned(), expected: expected.to_owned() },
    };
    let id = match find("id") {
        Some(SqlValue::Integer(id)) => id.to_string(),
        Some(SqlValue::Text(id)) if !id.is_empty() => id.clone(),
        _ => return Err(defect(None, "id", "a number or a text")),
    };
    let text = |name: &str| match find(name) {
        Some(SqlValue::Text(text)) => Ok(text.clone()),
        Some(SqlValue::Null) | None => Ok(String::new()),
        Some(_) => Err(defect(Some(id.clone()), name, "a text")),
    };
    let number = |name: &str, default: i64| match find(name) {
        Some(SqlValue::Integer(number)) => Ok(*number),
        Some(SqlValue::Null) | None => Ok(default),
        Some(_) => Err(defect(Some(id.clone()), name, "a whole number")),
    };
    let list = |names: &[&str]| match names.iter().find(|name| columns.iter().any(|c| c == *name)) {
        Some(name) => read_list(&text(name)?)
            .ok_or_else(|| defect(Some(id.clone()), name, "a JSON list of texts or numbers")),
        None => Ok(Vec::new()),
    };
    let notes = text("notes")?;
    let status = if number("passes", 0)? != 0 {
        ItemStatus::Completed
    } else if number("in_progress", 0)? != 0 {
        ItemStatus::InProgress
    } else {
        ItemStatus::Pending
    };
    Ok(BacklogItem {
        title: text("name")?,
        description: text("description")?,
        status,
        // AutoCoder's default.
        priority: number("priority", 999)?,
        criteria: list(&["steps"])?,
        dependencies: list(&["dependencies", "depends_on"])?,
        notes: if notes.is_empty() { Vec::new() } else { vec![notes] },
        verify: None,
        location: None,
        id,
    })
}

/// Reads a JSON list; nothing and `null` are empty lists.
fn read_list(source: &str) -> Option<Vec<String>> {
    if source.is_empty() {
        return Some(Vec::new());
    }
    let list = match serde_json::from_str(source).ok()? {
        Value::Array(list) => list,
        Value::Null => Vec::new(),
        _ => return None,
    };
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    list.into_iter().map(text).collect()
}

/// Sets the flags of an item's status.
pub(super) fn write_status(
    connection: &Connection,
    table: &FeatureTable,
    id: &str,
    status: ItemStatus,
) -> rusqlite::Result<()> {
    let flag = |on: bool| SqlValue::Integer(i64::from(on));
    write_value(connection, id, "passes", &flag(status == ItemStatus::Completed))?;
    if table.has_column("in_progress") {
        write_value(connection, id, "in_progress", &flag(status == ItemStatus::InProgress))?;
    }
    Ok(())
}

/// Sets one column of the row with this id.
pub(super) fn write_value(
    connection: &Connection,
    id: &str,
    column: &str,
    value: &SqlValue,
) -> rusqlite::Result<()> {
    // An id has the affinity of its column, so a text finds a number by its index.
    let sql = format!("UPDATE main.features SET {} = ?1 WHERE id = ?2", quote_name(column));
    match connection.prepare(&sql)?.execute((value, id))? {
        0 => Err(rusqlite::Error::QueryReturnedNoRows),
        _ => Ok(()),
    }
}

/// Inserts a row.
pub(super) fn insert_row(
    connection: &Connection,
    columns: &[String],
    values: &[SqlValue],
) -> rusqlite::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| quote_name(column)).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO main.features ({}) VALUES ({marks})", names.join(", "));
    connection.execute(&sql, params_from_iter(values)).map(|_| ())
}

/// Deletes the row with this id.
pub(super) fn delete_row(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM main.features WHERE id = ?1";
    connection.execute(sql, [id]).map(|_| ())
}

/// Writes the columns of a row that an agent must not change.
pub(super) fn restore_row(
    connection: &Connection,
    columns: &[String],
    row: &FeatureRow,
) -> rusqlite::Result<()> {
    for (column, value) in columns.iter().zip(&row.values) {
        if column != "id" && !OPEN_COLUMNS.contains(&column.as_str()) {
            write_value(connection, &row.item.id, column, value)?;
        }
    }
    Ok(())
}
