//! What every format is read into.

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
    pub description: String,
    /// How far the item has come.
    pub status: ItemStatus,
    /// The rank as the file has it; [`ItemOrder`](crate::ItemOrder) says which end comes first.
    pub priority: i64,
    /// What has to hold for the item to be complete.
    pub criteria: Vec<String>,
    /// Ids of the items that have to be completed first.
    pub dependencies: Vec<String>,
    /// What earlier sessions wrote down, oldest first. A format that keeps one text has one note.
    pub notes: Vec<String>,
    /// Where the item begins in its file; `None` in a database.
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

/// One version of a backlog: its bytes, and what they were read into. The bytes alone are enough
/// to make it again ([`Backlog::parse`](crate::Backlog::parse)), so a caller can store them.
#[derive(Clone, PartialEq, Eq)]
pub struct BacklogSnapshot {
    /// The file as it was; of a database, a consistent copy.
    pub bytes: Vec<u8>,
    /// The items in file order; of a database, by id.
    pub items: Vec<BacklogItem>,
    /// The order in which the items are worked.
    pub order: crate::ItemOrder,
    /// The statuses that the file can hold.
    pub storable: Vec<ItemStatus>,
}

impl fmt::Debug for BacklogSnapshot {
    /// Shows the length instead of the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BacklogSnapshot")
            .field("bytes", &self.bytes.len())
            .field("items", &self.items)
            .field("order", &self.order)
            .field("storable", &self.storable)
            .finish()
    }
}

impl BacklogSnapshot {
    /// Returns the item with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&BacklogItem> {
        self.items.iter().find(|item| item.id == id)
    }

    /// Counts the items by status.
    #[must_use]
    pub fn counts(&self) -> ItemCounts {
        let count = |status| self.items.iter().filter(|item| item.status == status).count();
        ItemCounts {
            completed: count(ItemStatus::Completed),
            in_progress: count(ItemStatus::InProgress),
            total: self.items.len(),
        }
    }
}

/// How many items a backlog has, and how many of them are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// Items that are completed (`passes = 1`).
    pub completed: usize,
    /// Items that are in progress.
    pub in_progress: usize,
    /// All items.
    pub total: usize,
}

impl fmt::Display for ItemCounts {
    /// Writes completed and all items, as `45/200 (22.5%)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (completed, total) = (self.completed, self.total);
        let tenths = (completed.saturating_mul(1000) + total / 2).checked_div(total).unwrap_or(0);
        write!(f, "{completed}/{total} ({}.{}%)", tenths / 10, tenths % 10)
    }
}
