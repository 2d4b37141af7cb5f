//! What can be wrong with a backlog and with an edit of it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::item::{BacklogItem, ItemStatus, TextLocation};

/// Characters of a title that a message shows.
const MOST_TITLE: usize = 80;
/// Most ids that a message names.
const MOST_NAMED: usize = 20;

/// Why a backlog cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BacklogError {
    /// The file does not exist.
    #[error("{}: no backlog file; create it, or correct the path", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused an operation on the file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The path leads through a link, or out of the workspace, or to something that is no file.
    #[error("{}: {problem}; use a regular file inside the workspace, without links", path.display())]
    UnsafePath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file is larger than is read.
    #[error("{}: the file has more than {limit} bytes; split the backlog", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size that is read, in bytes.
        limit: u64,
    },
    /// The content is not a valid backlog. All defects that were found are listed.
    #[error("{}", render_defects(path, defects))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, in file order.
        defects: Vec<BacklogDefect>,
    },
    /// No item has this id.
    #[error("{}: no item has the id `{id}`; list the items to see their ids", path.display())]
    UnknownItem {
        /// The file.
        path: PathBuf,
        /// The id.
        id: String,
    },
    /// The format cannot hold what an edit wants to write.
    #[error("{}: {format} files cannot store {what}; leave it out, or use a format that can", path.display())]
    NotStorable {
        /// The file.
        path: PathBuf,
        /// The format.
        format: String,
        /// What cannot be stored.
        what: String,
    },
    /// An item to add is not acceptable.
    #[error("{}: cannot add the item: {problem}", path.display())]
    InvalidNewItem {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Another process locks or edits the file for longer than is waited, which is five seconds.
    #[error("{}: another process holds the backlog; retry when it has finished", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A tracker was not read or written.
    #[error("{}: {problem}", path.display())]
    Tracker {
        /// Its name.
        path: PathBuf,
        /// What went wrong and what to do.
        problem: String,
        /// Whether waiting may help.
        is_temporary: bool,
    },
    /// A tracker was not read yet by a run, whose copy commands that only look would show.
    #[error("{}: not read yet; `run` reads them, and `run --dry-run` shows the next", path.display())]
    NotRead {
        /// Its name.
        path: PathBuf,
    },
    /// The edited text would not read back as intended. Nothing was written.
    #[error("{}: the edit of item `{id}` would change more than was requested; edit the file by hand", path.display())]
    EditNotIsolated {
        /// The file.
        path: PathBuf,
        /// The item.
        id: String,
    },
    /// A format that is not built in failed, or returned what cannot be. Nothing was written.
    #[error("{}: the format `{format}` failed: {problem}; nothing was written, correct the plugin that provides it", path.display())]
    FormatFailed {
        /// The file.
        path: PathBuf,
        /// The format.
        format: String,
        /// What it did.
        problem: String,
    },
    /// The database engine reports an error.
    #[cfg(feature = "sqlite")]
    #[error("{}: {source}; check it with `sqlite3 FILE 'PRAGMA integrity_check'`", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The engine's error.
        source: rusqlite::Error,
    },
}

/// One thing that is wrong with a backlog's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacklogDefect {
    /// Where it is; `None` in a database.
    pub location: Option<TextLocation>,
    /// The item that has it, as far as its id is known.
    pub item: Option<String>,
    /// What is wrong.
    pub kind: DefectKind,
}

/// What is wrong with a backlog's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefectKind {
    /// The text breaks the syntax of its format; with the parser's message.
    Syntax(String),
    /// The document has another structure than a backlog; with what was expected.
    Structure(String),
    /// A field that every item needs is missing.
    MissingField(String),
    /// A field has a value of the wrong kind.
    WrongType {
        /// The field.
        field: String,
        /// What was expected.
        expected: String,
    },
    /// In the words of a format that is not built in.
    Described(String),
    /// A key occurs twice in one object.
    DuplicateKey(String),
    /// The status is none of the four words.
    WrongStatus(String),
    /// Two items have the same id.
    DuplicateId,
    /// A dependency names no item.
    UnknownDependency(String),
    /// Items depend on each other in a circle; the first id is repeated at the end.
    Cycle(Vec<String>),
}

impl fmt::Display for DefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "invalid syntax: {message}"),
            Self::Described(message) => f.write_str(message),
            Self::Structure(expected) => write!(f, "expected {expected}"),
            Self::MissingField(field) => write!(f, "the field `{field}` is missing; add it"),
            Self::WrongType { field, expected } => {
                write!(f, "`{field}` has a value of the wrong kind; expected {expected}")
            }
            Self::DuplicateKey(key) => write!(f, "the key `{key}` occurs twice; keep one"),
            Self::WrongStatus(found) => write!(
                f,
                "unknown status `{found}`; expected pending, in_progress, completed or blocked"
            ),
            Self::DuplicateId => f.write_str("the id is used twice; give each item its own"),
            Self::UnknownDependency(id) => {
                write!(f, "depends on `{id}`, which does not exist; correct or remove it")
            }
            Self::Cycle(ids) => {
                write!(f, "dependency cycle {}; remove one of them", ids.join(" -> "))
            }
        }
    }
}

fn render_defects(path: &std::path::Path, defects: &[BacklogDefect]) -> String {
    let lines = defects.iter().map(|defect| {
        let mut line = path.display().to_string();
        if let Some(TextLocation { line: row, column }) = defect.location {
            line.push_str(&format!(":{row}:{column}"));
        }
        if let Some(id) = &defect.item {
            line.push_str(&format!(": item `{id}`"));
        }
        format!("{line}: {}", defect.kind)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Names the item that has the id of one to be added.
pub(crate) fn describe_taken(item: &BacklogItem) -> String {
    let title: String = item.title.chars().take(MOST_TITLE).collect();
    let place = item.location.map_or_else(String::new, |TextLocation { line, column }| {
        format!(", at line {line}, column {column}")
    });
    format!("the id `{}` is taken by \"{title}\"{place}; choose another", item.id)
}

/// Names the items that one to be added could depend on.
pub(crate) fn describe_unknown(id: &str, items: &[BacklogItem]) -> String {
    let named = items.iter().take(MOST_NAMED).map(|item| format!("`{}`", item.id));
    let mut there = named.collect::<Vec<_>>().join(", ");
    if let Some(more) = items.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        there.push_str(&format!(" and {more} more"));
    }
    let there = if there.is_empty() { "no items yet".to_owned() } else { there };
    format!("it depends on `{id}`, which does not exist (there are {there}); add that first")
}

/// Names what cannot be stored when a format has no place for a status.
pub(crate) fn describe_status(status: ItemStatus) -> String {
    format!("the status `{status}`")
}
