//! The trait that every backlog implements.

use std::path::Path;

use crate::error::BacklogError;
use crate::guard::{GuardReport, GuardRules, TrustedEdit};
use crate::item::{BacklogItem, BacklogSnapshot, ItemStatus, NewItem};
use crate::order::{ItemPlacement, NextItem};

/// Where the items of a backlog are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BacklogPlace {
    /// In a file of the workspace, which agents can write.
    File,
    /// Behind the network, such as issues. Agents have no part in it, and commands that only look show what was read
    /// last.
    Tracker,
}

/// A list of items, in one file or in a tracker. One in a file holds no state of its own: every call
/// reads the file afresh, so edits by people and other processes count at once. Calls block.
pub trait Backlog: Send + Sync {
    /// Returns the name of the format, as configuration has it.
    fn format(&self) -> &str;

    /// Returns the file's path for messages, relative to the workspace; of a tracker, its name.
    fn path(&self) -> &Path;

    /// Returns where the items are.
    fn place(&self) -> BacklogPlace {
        BacklogPlace::File
    }

    /// Reads a tracker anew; until the next time, every call returns what was read. The text of `held`, the item of a run
    /// that goes on, stays as it was. Does nothing for a file.
    ///
    /// # Errors
    /// [`BacklogError::Tracker`].
    fn refresh(&self, held: Option<&BacklogItem>) -> Result<(), BacklogError> {
        let _ = held;
        Ok(())
    }

    /// Reads the file and checks it.
    ///
    /// # Errors
    /// If it cannot be read, or [`BacklogError::Invalid`] with all defects.
    fn load(&self) -> Result<BacklogSnapshot, BacklogError>;

    /// Returns whether there is nothing to work on yet: no file, an empty one, or no item in it.
    fn is_unwritten(&self) -> bool {
        match self.load() {
            Ok(snapshot) => snapshot.items.is_empty(),
            Err(BacklogError::NotFound { .. }) => true,
            Err(_) => false,
        }
    }

    /// Returns an example of the file's content, or how it is made, for agents that write it.
    fn example(&self) -> &str;

    /// Returns what agents that write into the file have to know beside the example; may be empty.
    fn instructions(&self) -> &str {
        ""
    }

    /// Reads a stored version, as [`load`](Self::load) reads the file.
    ///
    /// # Errors
    /// [`BacklogError::Invalid`] with all defects.
    fn parse(&self, bytes: &[u8]) -> Result<BacklogSnapshot, BacklogError>;

    /// Sets an item's status, and changes nothing else. Returns the version after it.
    ///
    /// # Errors
    /// [`BacklogError::UnknownItem`], [`BacklogError::NotStorable`] where the format has no such
    /// status ([`BacklogSnapshot::storable`]), and what reading and writing meet.
    fn set_status(&self, id: &str, status: ItemStatus) -> Result<BacklogSnapshot, BacklogError>;

    /// Leaves word in a tracker of what became of an item, once for each mark. Does nothing for a file.
    ///
    /// # Errors
    /// [`BacklogError::UnknownItem`] or [`BacklogError::Tracker`].
    fn report(&self, id: &str, mark: &str, text: &str) -> Result<(), BacklogError> {
        let _ = (id, mark, text);
        Ok(())
    }

    /// Appends a note to an item, and changes nothing else. Returns the version after it.
    ///
    /// # Errors
    /// [`BacklogError::UnknownItem`], [`BacklogError::NotStorable`], and what reading and writing
    /// meet.
    fn append_note(&self, id: &str, note: &str) -> Result<BacklogSnapshot, BacklogError>;

    /// Adds a pending item as the last one. Returns its id and the version after it.
    ///
    /// # Errors
    /// [`BacklogError::InvalidNewItem`] for a taken id, an unknown dependency or an empty title,
    /// [`BacklogError::NotStorable`], and what reading and writing meet.
    fn add_item(&self, item: &NewItem) -> Result<(String, BacklogSnapshot), BacklogError>;

    /// Returns what [`add_item`](Self::add_item) would make of a stored version. Nothing is written.
    ///
    /// # Errors
    /// As [`add_item`](Self::add_item).
    fn preview_add(
        &self,
        base: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError>;

    /// Compares the file with `base`, the version before an agent's session, and takes back what
    /// an agent may not change. `edits` are what people and the orchestrator itself changed
    /// meanwhile, in order; they become part of the base. A file that is broken, missing or no
    /// regular file is restored from the base.
    ///
    /// # Errors
    /// If `base` or an edit is no valid version, or the file cannot be written.
    fn guard(
        &self,
        base: &BacklogSnapshot,
        edits: &[TrustedEdit],
        rules: GuardRules,
    ) -> Result<GuardReport, BacklogError>;

    /// Reads the file and returns what to do next.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn select_next(&self) -> Result<NextItem, BacklogError> {
        self.load().map(|snapshot| snapshot.select_next())
    }

    /// Reads the file and returns every item's place and why it has it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn explain(&self) -> Result<Vec<ItemPlacement>, BacklogError> {
        self.load().map(|snapshot| snapshot.explain())
    }
}
