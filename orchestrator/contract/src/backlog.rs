//! Items of backlogs, and those who read and write a format of them.

use std::cmp::{Ordering, Reverse};
use std::fmt;

use serde::{Deserialize, Serialize};

/// One unit of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacklogItem {
    /// Identifies the item in its backlog. Formats without ids of their own derive it from the
    /// title.
    pub id: String,
    /// The short name.
    pub title: String,
    /// What to do; empty where the format has only a title.
    #[serde(default)]
    pub description: String,
    /// How far the item has come.
    pub status: ItemStatus,
    /// The rank as the file has it; [`ItemOrder`] says which end comes first.
    #[serde(default)]
    pub priority: i64,
    /// What has to hold for the item to be complete.
    #[serde(default)]
    pub criteria: Vec<String>,
    /// Ids of the items that have to be completed first.
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// What earlier sessions wrote down, oldest first. A format that keeps one text has one note.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The command line that shows whether the item is complete, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Where the item begins in its file; `None` in a database.
    #[serde(default)]
    pub location: Option<TextLocation>,
}

/// How far an item has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Not begun.
    Pending,
    /// Begun and not completed; resumed first where the order says so.
    InProgress,
    /// Completed.
    Completed,
    /// Set aside by somebody; never selected.
    Blocked,
}

impl ItemStatus {
    /// All of them, in the order of an item's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Blocked];

    /// Returns the word that backlog files use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Blocked => "blocked",
        }
    }

    /// Returns the status with this word, or `None`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for ItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An item to add to a backlog. What a format cannot hold is refused, not dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewItem {
    /// The id; `None` derives one that is free, as the format numbers or names its items.
    pub id: Option<String>,
    /// The short name; must not be empty.
    pub title: String,
    /// What to do.
    pub description: String,
    /// The category, for formats that have one.
    pub category: Option<String>,
    /// The rank; `None` is the format's default.
    pub priority: Option<i64>,
    /// What has to hold for the item to be complete.
    pub criteria: Vec<String>,
    /// Ids of existing items that have to be completed first.
    pub dependencies: Vec<String>,
}

/// A position in a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TextLocation {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The order in which selectable items are worked. Each is total: what it does not tell apart
/// keeps the order of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemOrder {
    /// Items in progress first, then the highest priority (feature-list.json).
    InProgressThenHighest,
    /// The lowest priority first, then the lowest id as a number (features.db and its JSON
    /// predecessor). An item in progress has no precedence.
    LowestThenId,
    /// The lowest priority first (prd.json).
    Lowest,
    /// As the file has them (checkbox lists).
    #[default]
    File,
}

impl fmt::Display for ItemOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProgressThenHighest => "in progress first, then highest priority, then file",
            Self::LowestThenId => "lowest priority, then lowest id",
            Self::Lowest => "lowest priority, then file",
            Self::File => "file",
        })
    }
}

impl ItemOrder {
    /// Compares two items of one backlog that are both selectable.
    #[must_use]
    pub fn compare(self, a: &BacklogItem, b: &BacklogItem) -> Ordering {
        match self {
            Self::InProgressThenHighest => {
                let key = |item: &BacklogItem| {
                    (item.status != ItemStatus::InProgress, Reverse(item.priority))
                };
                key(a).cmp(&key(b))
            }
            Self::LowestThenId => {
                a.priority.cmp(&b.priority).then_with(|| compare_ids(&a.id, &b.id))
            }
            Self::Lowest => a.priority.cmp(&b.priority),
            Self::File => Ordering::Equal,
        }
    }
}

/// Compares ids as numbers where both are, numbers before words.
fn compare_ids(a: &str, b: &str) -> Ordering {
    match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// What is known of a format before any text is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FormatDescription {
    /// The order in which items are worked, unless the configuration names another one. By default that
    /// of the file.
    pub order: ItemOrder,
    /// The statuses that a text can hold. By default pending and completed.
    pub statuses: Vec<ItemStatus>,
    /// An example of a text, for agents that write one.
    pub example: String,
    /// One or two sentences for agents that write into such a text: what they have to know of the format
    /// beside the example. Empty by default.
    pub instructions: String,
}

impl Default for FormatDescription {
    fn default() -> Self {
        Self {
            order: ItemOrder::default(),
            statuses: vec![ItemStatus::Pending, ItemStatus::Completed],
            example: String::new(),
            instructions: String::new(),
        }
    }
}

/// One thing that is wrong with a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FormatDefect {
    /// Where it is, if that is known.
    pub location: Option<TextLocation>,
    /// The item that has it, if its id is known.
    pub item: Option<String>,
    /// What is wrong, what was expected, and what to do.
    pub message: String,
}

/// An edit of a text. What it does not name keeps its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case")]
pub enum BacklogEdit {
    /// Sets the status of an item.
    SetStatus {
        /// The item's id.
        id: String,
        /// The status, one that the format can hold.
        status: ItemStatus,
    },
    /// Sets the notes of an item, in place of those that it has.
    SetNotes {
        /// The item's id.
        id: String,
        /// All its notes, oldest first.
        notes: Vec<String>,
    },
    /// Adds a pending item as the last one.
    Add {
        /// The item. Its id is free, and the items that it depends on exist.
        item: NewItem,
    },
}

/// Why a format returns no items or no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is not valid: all that is wrong with it.
    #[error("the text has {} defects", .0.len())]
    Defects(Vec<FormatDefect>),
    /// The format cannot hold what an edit wants to write: what, such as "a priority".
    #[error("the format cannot store {0}")]
    NotStorable(String),
    /// An item to add is not acceptable: what is wrong and what to do.
    #[error("{0}")]
    InvalidItem(String),
    /// The format itself failed: why.
    #[error("{0}")]
    Failed(String),
}

/// Reads and edits the text of backlogs of one format.
///
/// Both methods are functions of their arguments alone: they read and write no files, and the same
/// arguments give the same result. What they return is checked: after an edit the text must read as
/// before but for what the edit says, else nothing is written.
pub trait BacklogFormat: Send + Sync {
    /// Returns what is known of the format before any text is read.
    fn describe(&self) -> FormatDescription;

    /// Reads the items of a text, in the order of the file.
    ///
    /// # Errors
    /// [`FormatError::Defects`] if the text is not valid. Double ids, unknown dependencies and cycles
    /// are found by the caller.
    fn read(&self, text: &str) -> Result<Vec<BacklogItem>, FormatError>;

    /// Applies edits to a text that [`read`](Self::read) accepts, one after the other, and returns the
    /// text after the last.
    ///
    /// # Errors
    /// [`FormatError::NotStorable`] or [`FormatError::InvalidItem`]; then none of the edits counts.
    fn edit(&self, text: &str, edits: &[BacklogEdit]) -> Result<String, FormatError>;
}
