//! A backlog in a text file whose format is not built in: a function over the text, such as a plugin's.
//!
//! What such a format returns is checked before it counts: an edited text has to read as before but for
//! the edit, else it is the format's error and nothing is written. Writing, guarding, order and the
//! rules between items are those of every backlog.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ralph_orchestrator_contract::{
    BacklogEdit, BacklogFormat, BacklogItem, FormatDefect, FormatDescription, FormatError,
    ItemOrder, ItemStatus, NewItem,
};

use crate::backlog::Backlog;
use crate::check::{check_items, check_new_item};
use crate::error::{BacklogDefect, BacklogError, DefectKind, describe_status};
use crate::expected::{apply_to_items, find_difference};
use crate::file::{BacklogFile, MAX_BYTES};
use crate::guard::{GuardReport, GuardRules, TrustedEdit, guard_file};
use crate::item::BacklogSnapshot;
use crate::text::read_utf8;

/// Returns the backlog in `file`, which is not read yet, of the format called `name`. Without `order`,
/// items have the order of the format.
#[must_use]
pub fn open_backlog_of(
    format: Box<dyn BacklogFormat>,
    name: &str,
    file: BacklogFile,
    order: Option<ItemOrder>,
) -> Box<dyn Backlog> {
    let description = format.describe();
    let name = name.to_owned();
    Box::new(FormatBacklog { format, name, description, file, order, last: Mutex::default() })
}

/// A backlog whose format is a function over its text.
pub(crate) struct FormatBacklog {
    format: Box<dyn BacklogFormat>,
    name: String,
    description: FormatDescription,
    pub(crate) file: BacklogFile,
    order: Option<ItemOrder>,
    /// The text that was read last, and its items: the same text is not read twice.
    last: Mutex<Option<(String, Vec<BacklogItem>)>>,
}

impl FormatBacklog {
    pub(crate) fn invalid(&self, defects: Vec<BacklogDefect>) -> BacklogError {
        BacklogError::Invalid { path: self.file.path().to_owned(), defects }
    }

    pub(crate) fn failed(&self, problem: impl Into<String>) -> BacklogError {
        let (path, format) = (self.file.path().to_owned(), self.name.clone());
        BacklogError::FormatFailed { path, format, problem: problem.into() }
    }

    fn not_storable(&self, what: String) -> BacklogError {
        let (path, format) = (self.file.path().to_owned(), self.name.clone());
        BacklogError::NotStorable { path, format, what }
    }

    fn explain(&self, error: FormatError) -> BacklogError {
        match error {
            FormatError::Defects(defects) if defects.is_empty() => {
                self.failed("it calls the text invalid without a reason")
            }
            FormatError::Defects(defects) => {
                self.invalid(defects.into_iter().map(BacklogDefect::from).collect())
            }
            FormatError::NotStorable(what) => self.not_storable(what),
            FormatError::InvalidItem(problem) => {
                BacklogError::InvalidNewItem { path: self.file.path().to_owned(), problem }
            }
            FormatError::Failed(problem) => self.failed(problem),
        }
    }

    /// Reads items without checking rules between them.
    pub(crate) fn read_items(&self, bytes: &[u8]) -> Result<Vec<BacklogItem>, BacklogError> {
        let text = read_utf8(bytes).map_err(|defect| self.invalid(vec![defect]))?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, items)) = last.as_ref().filter(|(known, _)| known == text) {
            return Ok(items.clone());
        }
        let items = self.format.read(text).map_err(|error| self.explain(error))?;
        if items.iter().any(|item| item.id.trim().is_empty()) {
            return Err(self.failed("it read an item without an id"));
        }
        let statuses = &self.description.statuses;
        if let Some(item) = items.iter().find(|item| !statuses.contains(&item.status)) {
            let (id, status) = (&item.id, item.status);
            return Err(self.failed(format!(
                "it read item `{id}` as {status}, a status that it says it cannot hold"
            )));
        }
        *last = Some((text.to_owned(), items.clone()));
        Ok(items)
    }

    pub(crate) fn snapshot(&self, bytes: Vec<u8>) -> Result<BacklogSnapshot, BacklogError> {
        let items = self.read_items(&bytes)?;
        let defects = check_items(&items);
        if !defects.is_empty() {
            return Err(self.invalid(defects));
        }
        let order = self.order.unwrap_or(self.description.order);
        Ok(BacklogSnapshot {
            bytes,
            items,
            order,
            storable: self.description.statuses.clone(),
            set_aside: BTreeMap::new(),
            unread: Vec::new(),
        })
    }

    /// Applies edits, and makes sure that the text then reads as before but for them.
    pub(crate) fn edit(
        &self,
        before: &BacklogSnapshot,
        edits: &[BacklogEdit],
    ) -> Result<BacklogSnapshot, BacklogError> {
        let text = read_utf8(&before.bytes).map_err(|defect| self.invalid(vec![defect]))?;
        let edited = self.format.edit(text, edits).map_err(|error| self.explain(error))?;
        if u64::try_from(edited.len()).is_ok_and(|length| length > MAX_BYTES) {
            let path = self.file.path().to_owned();
            return Err(BacklogError::TooLarge { path, limit: MAX_BYTES });
        }
        let after = self.snapshot(edited.into_bytes());
        let after = after.map_err(|error| {
            self.failed(format!("it wrote a text that it cannot read: {error}"))
        })?;
        match find_difference(&apply_to_items(&before.items, edits), &after.items) {
            None => Ok(after),
            Some(problem) => {
                Err(self.failed(format!("it changed more than was requested: {problem}")))
            }
        }
    }

    /// Edits the item of the file that has this id.
    fn edit_item(
        &self,
        id: &str,
        edit: impl Fn(&BacklogItem) -> Result<Option<BacklogEdit>, BacklogError>,
    ) -> Result<BacklogSnapshot, BacklogError> {
        self.file.update(|bytes| {
            let before = self.snapshot(bytes.to_vec())?;
            let item = before.find(id).ok_or_else(|| BacklogError::UnknownItem {
                path: self.file.path().to_owned(),
                id: id.to_owned(),
            })?;
            let Some(edit) = edit(item)? else { return Ok((None, before)) };
            let after = self.edit(&before, &[edit])?;
            Ok((Some(after.bytes.clone()), after))
        })
    }

    /// Returns a version with one more item, and that item's id.
    fn with_item(
        &self,
        bytes: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError> {
        let before = self.snapshot(bytes.to_vec())?;
        check_new_item(self.file.path(), &before.items, item)?;
        let after = self.edit(&before, &[BacklogEdit::Add { item: item.clone() }])?;
        let added = after.items.last().map(|item| item.id.clone());
        let id = added.ok_or_else(|| self.failed("it added no item"))?;
        Ok((id, after))
    }
}

impl From<FormatDefect> for BacklogDefect {
    fn from(defect: FormatDefect) -> Self {
        let FormatDefect { location, item, message } = defect;
        Self { location, item, kind: DefectKind::Described(message) }
    }
}

impl Backlog for FormatBacklog {
    fn format(&self) -> &str {
        &self.name
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
        &self.description.example
    }

    fn instructions(&self) -> &str {
        &self.description.instructions
    }

    fn parse(&self, bytes: &[u8]) -> Result<BacklogSnapshot, BacklogError> {
        self.snapshot(bytes.to_vec())
    }

    fn set_status(&self, id: &str, status: ItemStatus) -> Result<BacklogSnapshot, BacklogError> {
        self.edit_item(id, |item| {
            if item.status == status {
                return Ok(None);
            }
            if !self.description.statuses.contains(&status) {
                return Err(self.not_storable(describe_status(status)));
            }
            Ok(Some(BacklogEdit::SetStatus { id: id.to_owned(), status }))
        })
    }

    fn append_note(&self, id: &str, note: &str) -> Result<BacklogSnapshot, BacklogError> {
        self.edit_item(id, |item| {
            if note.trim().is_empty() {
                return Ok(None);
            }
            let notes = item.notes.iter().cloned().chain([note.to_owned()]).collect();
            Ok(Some(BacklogEdit::SetNotes { id: id.to_owned(), notes }))
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
        let base = self.merge_edits(base, edits)?;
        let guarded = guard_file(&self.file, |after| Ok(self.compare(&base, after, rules)))?;
        guarded.into_report(|current| self.snapshot(current))
    }
}
