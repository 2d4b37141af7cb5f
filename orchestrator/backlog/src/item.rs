//! What every format is read into.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use ralph_orchestrator_contract::ItemOrder;
pub use ralph_orchestrator_contract::{BacklogItem, ItemStatus, NewItem, TextLocation};

/// One version of a backlog: its bytes, and what they were read into. The bytes alone are enough
/// to make it again ([`Backlog::parse`](crate::Backlog::parse)), so a caller can store them.
#[derive(Clone, PartialEq, Eq)]
pub struct BacklogSnapshot {
    /// The file as it was; of a database, a consistent copy.
    pub bytes: Vec<u8>,
    /// The items in file order; of a database, by id.
    pub items: Vec<BacklogItem>,
    /// The order in which the items are worked.
    pub order: ItemOrder,
    /// The statuses that the file can hold.
    pub storable: Vec<ItemStatus>,
    /// The items that are set aside whatever the file can hold, by id.
    pub set_aside: BTreeMap<String, SetAside>,
    /// The lines that look like open items and are none.
    pub unread: Vec<UnreadLine>,
}

/// A line that looks like an open item and is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadLine {
    /// The line, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// Why an item is not worked on, though the file may say nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SetAside {
    /// Work on it leads nowhere: why.
    Blocked(String),
    /// A person wants it left out.
    Skipped,
}

impl fmt::Debug for BacklogSnapshot {
    /// Shows the length instead of the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BacklogSnapshot")
            .field("bytes", &self.bytes.len())
            .field("items", &self.items)
            .field("order", &self.order)
            .field("storable", &self.storable)
            .field("set_aside", &self.set_aside)
            .field("unread", &self.unread)
            .finish()
    }
}

impl BacklogSnapshot {
    /// Returns the item with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&BacklogItem> {
        self.items.iter().find(|item| item.id == id)
    }

    /// Sets items aside, unless they are completed.
    pub fn put_aside<'a>(&mut self, items: impl IntoIterator<Item = (&'a String, &'a SetAside)>) {
        for (id, aside) in items {
            let found = self.items.iter_mut().find(|item| item.id == *id);
            if let Some(item) = found.filter(|item| item.status != ItemStatus::Completed) {
                item.status = ItemStatus::Blocked;
                self.set_aside.insert(id.clone(), aside.clone());
            }
        }
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
