//! What a text format does. `TextBacklog` is built on it.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::error::BacklogDefect;
use crate::item::{BacklogItem, ItemStatus, NewItem, UnreadLine};
use crate::kind::BacklogKind;
use crate::order::ItemOrder;
use crate::text::TextEdit;

/// A parsed text: its items, and what edits of them need to know.
#[derive(Debug)]
pub(crate) struct Document<L> {
    pub(crate) items: Vec<BacklogItem>,
    /// The bytes of each item.
    pub(crate) spans: Vec<Range<usize>>,
    pub(crate) order: ItemOrder,
    pub(crate) layout: L,
}

/// Why an item cannot be added.
#[derive(Debug)]
pub(crate) enum AddProblem {
    /// The format has no place for this.
    NotStorable(String),
    /// The item itself is not acceptable; with what to do.
    Invalid(String),
}

/// Reads a text format and computes edits of it. Edits are spans: what they do not name keeps
/// its bytes.
pub(crate) trait TextFormat: Send + Sync + 'static {
    /// What edits need to know of a text.
    type Layout;

    /// Which format it is.
    const KIND: BacklogKind;
    /// An example of the content.
    const EXAMPLE: &'static str;

    /// Reads a text without checking rules between items.
    fn parse(&self, text: &str) -> Result<Document<Self::Layout>, Vec<BacklogDefect>>;

    /// Returns whether the text can hold this status.
    fn has_status(&self, document: &Document<Self::Layout>, status: ItemStatus) -> bool;

    /// Returns the edits that set an item's status, or `None` if it cannot be set.
    fn edit_status(
        &self,
        text: &str,
        document: &Document<Self::Layout>,
        index: usize,
        status: ItemStatus,
    ) -> Option<Vec<TextEdit>>;

    /// Returns the edit that appends a note, and the notes that the item then has; `None` if
    /// the item cannot have one.
    fn edit_note(
        &self,
        text: &str,
        document: &Document<Self::Layout>,
        index: usize,
        note: &str,
    ) -> Option<(TextEdit, Vec<String>)>;

    /// Returns the edits that give an item the notes of another version of it.
    fn copy_notes(
        &self,
        to: (&str, &Document<Self::Layout>, usize),
        from: (&str, &Document<Self::Layout>, usize),
    ) -> Vec<TextEdit>;

    /// Returns the edit that adds an item as the last one.
    fn edit_add(
        &self,
        text: &str,
        document: &Document<Self::Layout>,
        item: &NewItem,
    ) -> Result<TextEdit, AddProblem>;

    /// Returns the edit that inserts an item's source after another item, or as the first.
    fn insert_source(
        &self,
        text: &str,
        document: &Document<Self::Layout>,
        after: Option<usize>,
        source: &str,
    ) -> TextEdit;

    /// Returns the edits that remove these items, whose indices ascend.
    fn remove_items(
        &self,
        text: &str,
        document: &Document<Self::Layout>,
        indices: &[usize],
    ) -> Vec<TextEdit>;

    /// Returns the fields of an item that an agent must not change.
    fn protected_fields(
        &self,
        text: &str,
        document: &Document<Self::Layout>,
        index: usize,
    ) -> Map<String, Value>;

    /// Returns the fields beside the items that an agent must not change.
    fn frame_fields(&self, text: &str, document: &Document<Self::Layout>) -> Map<String, Value>;

    /// Returns the edits that tick what is ticked in another version of an item, beside the item itself.
    fn copy_checks(
        &self,
        _to: (&str, &Document<Self::Layout>, usize),
        _from: (&str, &Document<Self::Layout>, usize),
    ) -> Vec<TextEdit> {
        Vec::new()
    }

    /// Returns what is written beside the items and is an agent's to change.
    fn prose(&self, _text: &str, _document: &Document<Self::Layout>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the lines that look like open items and are none.
    fn find_unread(&self, _text: &str, _document: &Document<Self::Layout>) -> Vec<UnreadLine> {
        Vec::new()
    }
}
