//! A backlog in a text file.

use std::collections::BTreeMap;
use std::path::Path;

use crate::backlog::Backlog;
use crate::check::{check_items, check_new_item};
use crate::error::{BacklogDefect, BacklogError, describe_status};
use crate::file::BacklogFile;
use crate::guard::{GuardOutcome, GuardReport, GuardRules, TrustedEdit, guard_file, guard_text};
use crate::item::{BacklogItem, BacklogSnapshot, ItemStatus, NewItem};
use crate::order::ItemOrder;
use crate::text::{TextEdit, apply_edits, read_utf8};
use crate::text_format::{AddProblem, Document, TextFormat};

/// A backlog in a text file of one format.
pub(crate) struct TextBacklog<F> {
    format: F,
    pub(crate) file: BacklogFile,
    order: Option<ItemOrder>,
}

impl<F: TextFormat> TextBacklog<F> {
    pub(crate) const fn new(format: F, file: BacklogFile, order: Option<ItemOrder>) -> Self {
        Self { format, file, order }
    }

    fn invalid(&self, defects: Vec<BacklogDefect>) -> BacklogError {
        BacklogError::Invalid { path: self.file.path().to_owned(), defects }
    }

    fn not_storable(&self, what: String) -> BacklogError {
        let path = self.file.path().to_owned();
        BacklogError::NotStorable { path, format: F::KIND.name().to_owned(), what }
    }

    fn invalid_new(&self, problem: String) -> BacklogError {
        BacklogError::InvalidNewItem { path: self.file.path().to_owned(), problem }
    }

    fn read<'a>(&self, bytes: &'a [u8]) -> Result<(&'a str, Document<F::Layout>), BacklogError> {
        let text = read_utf8(bytes).map_err(|defect| self.invalid(vec![defect]))?;
        let document = self.format.parse(text).map_err(|defects| self.invalid(defects))?;
        let defects = check_items(&document.items);
        if defects.is_empty() { Ok((text, document)) } else { Err(self.invalid(defects)) }
    }

    fn snapshot(&self, bytes: Vec<u8>) -> Result<BacklogSnapshot, BacklogError> {
        let (text, document) = self.read(&bytes)?;
        let statuses = ItemStatus::ALL.into_iter();
        let storable = statuses.filter(|s| self.format.has_status(&document, *s)).collect();
        let order = self.order.unwrap_or(document.order);
        let unread = self.format.find_unread(text, &document);
        let (items, set_aside) = (document.items, BTreeMap::new());
        Ok(BacklogSnapshot { bytes, items, order, storable, set_aside, unread })
    }

    fn find(&self, document: &Document<F::Layout>, id: &str) -> Result<ItemAt, BacklogError> {
        let mut items = document.items.iter().enumerate();
        let found = items.find(|(_, item)| item.id == id);
        let at = found.map(|(index, item)| ItemAt { index, item: item.clone() });
        at.ok_or_else(|| BacklogError::UnknownItem {
            path: self.file.path().to_owned(),
            id: id.to_owned(),
        })
    }

    /// Edits one item, and makes sure that the edited text reads as `expect` makes of it.
    fn edit_item(
        &self,
        id: &str,
        edit: impl Fn(&str, &Document<F::Layout>, ItemAt) -> Result<ItemEdit, BacklogError>,
    ) -> Result<BacklogSnapshot, BacklogError> {
        self.file.update(|bytes| {
            let (text, document) = self.read(bytes)?;
            let at = self.find(&document, id)?;
            let index = at.index;
            let ItemEdit { edits, expected } = edit(text, &document, at)?;
            let edited = apply_edits(text, edits).into_bytes();
            let isolated = |after: &BacklogSnapshot| {
                let mut pairs = document.items.iter().zip(&after.items).enumerate();
                document.items.len() == after.items.len()
                    && pairs.all(|(position, (before, after))| {
                        let before = if position == index { &expected } else { before };
                        is_same_item(before, after)
                    })
            };
            let after = self.snapshot(edited).ok().filter(isolated);
            let after = after.ok_or_else(|| BacklogError::EditNotIsolated {
                path: self.file.path().to_owned(),
                id: id.to_owned(),
            })?;
            let is_changed = after.bytes != bytes;
            Ok((is_changed.then(|| after.bytes.clone()), after))
        })
    }

    /// Returns a text with one more item, and that item's id.
    fn with_item(
        &self,
        bytes: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError> {
        let (text, document) = self.read(bytes)?;
        check_new_item(self.file.path(), &document.items, item)?;
        let edit = self.format.edit_add(text, &document, item).map_err(|p| match p {
            AddProblem::NotStorable(what) => self.not_storable(what),
            AddProblem::Invalid(problem) => self.invalid_new(problem),
        })?;
        let after = self.snapshot(apply_edits(text, vec![edit]).into_bytes())?;
        let mut others = document.items.iter().zip(&after.items);
        let added = after.items.last().filter(|_| {
            after.items.len() == document.items.len() + 1
                && others.all(|(before, after)| is_same_item(before, after))
        });
        let id =
            added.map(|item| item.id.clone()).ok_or_else(|| BacklogError::EditNotIsolated {
                path: self.file.path().to_owned(),
                id: item.title.clone(),
            })?;
        Ok((id, after))
    }
}

/// An item and its position in its document.
struct ItemAt {
    index: usize,
    item: BacklogItem,
}

/// Edits of one item, and the item that they make.
struct ItemEdit {
    edits: Vec<TextEdit>,
    expected: BacklogItem,
}

/// Returns whether two items are the same, wherever they are in the file.
fn is_same_item(a: &BacklogItem, b: &BacklogItem) -> bool {
    let BacklogItem {
        id,
        title,
        description,
        status,
        priority,
        criteria,
        dependencies,
        notes,
        verify,
        location: _,
    } = a;
    (id, title, description, status, priority)
        == (&b.id, &b.title, &b.description, &b.status, &b.priority)
        && (criteria, dependencies, notes, verify)
            == (&b.criteria, &b.dependencies, &b.notes, &b.verify)
}

impl<F: TextFormat> Backlog for TextBacklog<F> {
    fn format(&self) -> &str {
        F::KIND.name()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn load(&self) -> Result<BacklogSnapshot, BacklogError> {
        self.snapshot(self.file.read()?)
    }

    fn is_unwritten(&self) -> bool {
        match self.file.read() {
            Ok(bytes) if bytes.trim_ascii().is_empty() => true,
            Ok(bytes) => self.snapshot(bytes).is_ok_and(|snapshot| snapshot.items.is_empty()),
            Err(BacklogError::NotFound { .. }) => true,
            Err(_) => false,
        }
    }

    fn example(&self) -> &str {
        F::EXAMPLE
    }

    fn parse(&self, bytes: &[u8]) -> Result<BacklogSnapshot, BacklogError> {
        self.snapshot(bytes.to_vec())
    }

    fn set_status(&self, id: &str, status: ItemStatus) -> Result<BacklogSnapshot, BacklogError> {
        self.edit_item(id, |text, document, ItemAt { index, item: mut expected }| {
            if expected.status == status {
                return Ok(ItemEdit { edits: Vec::new(), expected });
            }
            expected.status = status;
            let edits = self.format.edit_status(text, document, index, status);
            let edits = edits.ok_or_else(|| self.not_storable(describe_status(status)))?;
            Ok(ItemEdit { edits, expected })
        })
    }

    fn append_note(&self, id: &str, note: &str) -> Result<BacklogSnapshot, BacklogError> {
        self.edit_item(id, |text, document, ItemAt { index, item: mut expected }| {
            if note.trim().is_empty() {
                return Ok(ItemEdit { edits: Vec::new(), expected });
            }
            let edit = self.format.edit_note(text, document, index, note);
            let (edit, notes) = edit.ok_or_else(|| self.not_storable("notes".to_owned()))?;
            expected.notes = notes;
            Ok(ItemEdit { edits: vec![edit], expected })
        })
    }

    fn add_item(&self, item: &NewItem) -> Result<(String, BacklogSnapshot), BacklogError> {
        self.file.update(|bytes| {
            let (id, after) = self.with_item(bytes, item)?;
            Ok((Some(after.bytes.clone()), (id, after)))
        })
    }

    fn preview_add(
        &self,
        base: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError> {
        self.with_item(base, item)
    }

    fn guard(
        &self,
        base: &BacklogSnapshot,
        edits: &[TrustedEdit],
        rules: GuardRules,
    ) -> Result<GuardReport, BacklogError> {
        let compare = |after: Result<&[u8], String>| -> Result<GuardOutcome, BacklogError> {
            guard_text(&self.format, &base.bytes, after, edits, rules)
                .map_err(|defects| self.invalid(defects))
        };
        let guarded = guard_file(&self.file, compare)?;
        guarded.into_report(|current| self.snapshot(current))
    }
}
