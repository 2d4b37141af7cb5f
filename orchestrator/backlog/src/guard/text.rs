//! Guards a text file: compares, and writes the base with what an agent may change.

use std::collections::{HashMap, HashSet};

use super::compare::{Comparison, GuardedItem, compare_frames, compare_items};
use super::file::GuardOutcome;
use super::report::{GuardFinding, GuardRules, TrustedEdit};
use crate::check::check_items;
use crate::error::BacklogDefect;
use crate::text::{TextEdit, apply_edits, read_utf8};
use crate::text_format::{Document, TextFormat};

type Defects = Vec<BacklogDefect>;

/// What a finding calls what is written beside the items.
const TEXT: &str = "text";

fn parse<'a, F: TextFormat>(
    format: &F,
    bytes: &'a [u8],
) -> Result<(&'a str, Document<F::Layout>), Defects> {
    let text = read_utf8(bytes).map_err(|defect| vec![defect])?;
    Ok((text, format.parse(text)?))
}

/// Compares `after`, or the reason why there is none, with `base` and the edits since.
///
/// # Errors
/// If `base` or an edit cannot be read.
pub(crate) fn guard_text<F: TextFormat>(
    format: &F,
    base: &[u8],
    after: Result<&[u8], String>,
    edits: &[TrustedEdit],
    rules: GuardRules,
) -> Result<GuardOutcome, Defects> {
    let mut base = read_utf8(base).map_err(|defect| vec![defect])?.to_owned();
    for edit in edits {
        base = merge_edit(format, &base, edit)?;
    }
    let base_document = format.parse(&base)?;
    let defects = check_items(&base_document.items);
    if !defects.is_empty() {
        return Err(defects);
    }
    let restore = |problem: String| GuardOutcome {
        findings: vec![GuardFinding::Corrupted { problem }],
        content: Some(base.clone().into_bytes()),
    };
    let parsed = match after {
        Ok(bytes) => parse(format, bytes).map_err(|defects| describe(&defects)),
        Err(problem) => Err(problem),
    };
    let (after, document) = match parsed {
        Ok((_, document)) if document.order != base_document.order => {
            return Ok(restore("the file has the structure of another tool".to_owned()));
        }
        Ok(parsed) => parsed,
        Err(problem) => return Ok(restore(problem)),
    };
    let mut comparison = compare_items(
        &guarded_items(format, &base, &base_document),
        &guarded_items(format, after, &document),
        rules,
    );
    let frames =
        (format.frame_fields(&base, &base_document), format.frame_fields(after, &document));
    compare_frames(&mut comparison, &frames.0, &frames.1);
    let versions = Versions { format, base: (&base, &base_document), after: (after, &document) };
    let content = match versions.take_out_added(&comparison) {
        Some(text) => Some(text),
        None if comparison.is_structural => {
            if format.prose(&base, &base_document) != format.prose(after, &document) {
                let field = TEXT.to_owned();
                let finding = GuardFinding::FrameEdited { field, before: None, after: None };
                comparison.findings.push(finding);
            }
            Some(versions.rebuild(&comparison))
        }
        None => versions.restore_statuses(&comparison, after, &document),
    };
    Ok(GuardOutcome { findings: comparison.findings, content: content.map(String::into_bytes) })
}

fn describe(defects: &[BacklogDefect]) -> String {
    let line = |defect: &BacklogDefect| match defect.location {
        Some(at) => format!("{}:{}: {}", at.line, at.column, defect.kind),
        None => defect.kind.to_string(),
    };
    defects.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn guarded_items<F: TextFormat>(
    format: &F,
    text: &str,
    document: &Document<F::Layout>,
) -> Vec<GuardedItem> {
    let spans = document.spans.iter();
    let items = document.items.iter().zip(spans).enumerate();
    let guarded = items.map(|(index, (item, span))| GuardedItem {
        item: item.clone(),
        fields: format.protected_fields(text, document, index),
        source: text.get(span.clone()).unwrap_or_default().to_owned(),
    });
    guarded.collect()
}

struct Versions<'a, F: TextFormat> {
    format: &'a F,
    base: (&'a str, &'a Document<F::Layout>),
    after: (&'a str, &'a Document<F::Layout>),
}

impl<F: TextFormat> Versions<'_, F> {
    /// Returns the agent's text without the items that it added, if it did nothing else that has to be restored: what
    /// it wrote beside them stays.
    fn take_out_added(&self, comparison: &Comparison) -> Option<String> {
        let is_kept = |finding: &GuardFinding| match finding {
            GuardFinding::Proposed { .. } | GuardFinding::CompletedByAgent { .. } => true,
            other => !other.is_reverted() || matches!(other, GuardFinding::StatusChanged { .. }),
        };
        if comparison.added.is_empty() || !comparison.findings.iter().all(is_kept) {
            return None;
        }
        let (text, document) = self.after;
        let text = apply_edits(text, self.format.remove_items(text, document, &comparison.added));
        let document = self.format.parse(&text).ok()?;
        let (base, base_document) = self.base;
        let fields = |text: &str, document: &Document<F::Layout>| {
            let items = guarded_items(self.format, text, document).into_iter();
            let items = items.map(|guarded| (guarded.item.id, guarded.fields));
            (items.collect::<Vec<_>>(), self.format.frame_fields(text, document))
        };
        // An item that is taken out may be what others are read by.
        if fields(&text, &document) != fields(base, base_document) {
            return None;
        }
        let order = (0..document.items.len()).map(Some).collect();
        let comparison = Comparison {
            positions: order,
            reverted: comparison.reverted.clone(),
            ..Comparison::default()
        };
        Some(self.restore_statuses(&comparison, &text, &document).unwrap_or(text))
    }

    /// Returns a text of the agent with the statuses that it may not change as they were; `None` if there are none.
    fn restore_statuses(
        &self,
        comparison: &Comparison,
        text: &str,
        document: &Document<F::Layout>,
    ) -> Option<String> {
        if comparison.reverted.is_empty() {
            return None;
        }
        let edits = comparison.reverted.iter().filter_map(|position| {
            let status = self.base.1.items.get(*position)?.status;
            let found = comparison.positions.get(*position).copied().flatten()?;
            self.format.edit_status(text, document, found, status)
        });
        Some(apply_edits(text, edits.flatten().collect()))
    }

    /// Writes what the agent may change into the base.
    fn rebuild(&self, comparison: &Comparison) -> String {
        let (text, document) = self.base;
        let mut edits: Vec<TextEdit> = Vec::new();
        for (position, before) in document.items.iter().enumerate() {
            let found = comparison.positions.get(position).copied().flatten();
            let Some(found) = found else { continue };
            let Some(after) = self.after.1.items.get(found) else { continue };
            let status = comparison.status_of(position, before, after);
            if status != before.status {
                let edit = self.format.edit_status(text, document, position, status);
                edits.extend(edit.into_iter().flatten());
            }
            let from = (self.after.0, self.after.1, found);
            if before.notes != after.notes {
                edits.extend(self.format.copy_notes((text, document, position), from));
            }
            edits.extend(self.format.copy_checks((text, document, position), from));
        }
        let rebuilt = apply_edits(text, edits);
        // The base is valid, and so is what is written into it; if not, the base alone is.
        let ids = |document: &Document<F::Layout>| -> Vec<String> {
            document.items.iter().map(|item| item.id.clone()).collect()
        };
        let is_whole = self.format.parse(&rebuilt).is_ok_and(|rebuilt| {
            ids(&rebuilt) == ids(document) && check_items(&rebuilt.items).is_empty()
        });
        if is_whole { rebuilt } else { text.to_owned() }
    }
}

/// Applies an edit that somebody made to another version of the file. Of items that both changed,
/// the edit's source wins, and its status only if it changed the status.
fn merge_edit<F: TextFormat>(
    format: &F,
    base: &str,
    edit: &TrustedEdit,
) -> Result<String, Defects> {
    let (before_text, before) = parse(format, &edit.before)?;
    let (after_text, after) = parse(format, &edit.after)?;
    if before_text == base {
        return Ok(after_text.to_owned());
    }
    let before = guarded_items(format, before_text, &before);
    let after = guarded_items(format, after_text, &after);
    let was: HashMap<&str, &GuardedItem> =
        before.iter().map(|guarded| (guarded.item.id.as_str(), guarded)).collect();
    let is: HashSet<&str> = after.iter().map(|guarded| guarded.item.id.as_str()).collect();
    let changed = after
        .iter()
        .filter(|new| was.get(new.item.id.as_str()).is_none_or(|old| !is_same_content(old, new)));
    let changed: HashSet<&str> = changed.map(|new| new.item.id.as_str()).collect();

    let document = format.parse(base)?;
    let is_removed = |id: &str| was.contains_key(id) && !is.contains(id);
    let items = document.items.iter().enumerate();
    let removed = items.filter(|(_, item)| is_removed(&item.id)).map(|(index, _)| index);
    let removed: Vec<usize> = removed.collect();
    let text = apply_edits(base, format.remove_items(base, &document, &removed));
    let text = replace_items(format, &text, &after, &changed, &was)?;
    insert_items(format, &text, &after, &changed)
}

fn is_same_content(a: &GuardedItem, b: &GuardedItem) -> bool {
    a.fields == b.fields && a.item.status == b.item.status && a.item.notes == b.item.notes
}

/// Replaces the sources of the changed items that exist.
fn replace_items<F: TextFormat>(
    format: &F,
    text: &str,
    after: &[GuardedItem],
    changed: &HashSet<&str>,
    was: &HashMap<&str, &GuardedItem>,
) -> Result<String, Defects> {
    let document = format.parse(text)?;
    let new: HashMap<&str, &GuardedItem> =
        after.iter().map(|guarded| (guarded.item.id.as_str(), guarded)).collect();
    let mut edits = Vec::new();
    let mut statuses = Vec::new();
    for (index, (item, span)) in document.items.iter().zip(&document.spans).enumerate() {
        let id = item.id.as_str();
        let Some(new) = new.get(id).filter(|_| changed.contains(id)) else { continue };
        edits.push(TextEdit::replace(span.clone(), &*new.source));
        if was.get(id).is_some_and(|old| old.item.status == new.item.status) {
            statuses.push((index, item.status));
        }
    }
    let replaced = apply_edits(text, edits);
    let document = format.parse(&replaced)?;
    let edits = statuses.into_iter().filter_map(|(index, status)| {
        let is_other = document.items.get(index).is_some_and(|item| item.status != status);
        is_other.then(|| format.edit_status(&replaced, &document, index, status)).flatten()
    });
    Ok(apply_edits(&replaced, edits.flatten().collect()))
}

/// Inserts the changed items that do not exist, each after the item that it follows.
fn insert_items<F: TextFormat>(
    format: &F,
    text: &str,
    after: &[GuardedItem],
    changed: &HashSet<&str>,
) -> Result<String, Defects> {
    let document = format.parse(text)?;
    let has: HashMap<&str, usize> =
        document.items.iter().enumerate().map(|(n, item)| (item.id.as_str(), n)).collect();
    let mut edits = Vec::new();
    let mut anchor = None;
    for guarded in after {
        let id = guarded.item.id.as_str();
        if let Some(index) = has.get(id) {
            anchor = Some(*index);
        } else if changed.contains(id) {
            edits.push(format.insert_source(text, &document, anchor, &guarded.source));
            if document.items.is_empty() {
                // The others need this one to be inserted after.
                let text = apply_edits(text, edits);
                let is_item = !format.parse(&text)?.items.is_empty();
                return if is_item {
                    insert_items(format, &text, after, changed)
                } else {
                    Ok(text)
                };
            }
        }
    }
    Ok(apply_edits(text, edits))
}
