//! Guards a text file: compares, and writes the base with what an agent may change.

use std::collections::{HashMap, HashSet};

use super::compare::{Comparison, GuardedItem, compare_frames, compare_items};
use super::{GuardFinding, GuardRules, TrustedEdit};
use crate::check::check_items;
use crate::error::BacklogDefect;
use crate::format::{Document, TextFormat};
use crate::text::{TextEdit, apply_edits, read_utf8};

/// What a guard makes of a version.
#[derive(Debug)]
pub(crate) struct GuardOutcome {
    pub(crate) findings: Vec<GuardFinding>,
    /// What the file has to have; `None` to leave it.
    pub(crate) content: Option<Vec<u8>>,
}

type Defects = Vec<BacklogDefect>;

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
    let content = versions.merge(&comparison).map(String::into_bytes);
    Ok(GuardOutcome { findings: comparison.findings, content })
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
    /// Returns the text that the file has to have, or `None` if the agent's is acceptable.
    fn merge(&self, comparison: &Comparison) -> Option<String> {
        if comparison.is_structural {
            return Some(self.rebuild(comparison));
        }
        if comparison.reverted.is_empty() {
            return None;
        }
        let (text, document) = self.after;
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
            if before.notes != after.notes {
                let from = (self.after.0, self.after.1, found);
                edits.extend(self.format.copy_notes((text, document, position), from));
            }
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

/// Applies an edit that somebody made to another version of the file.
fn merge_edit<F: TextFormat>(
    format: &F,
    base: &str,
    edit: &TrustedEdit,
) -> Result<String, Defects> {
    let (before_text, before) = parse(format, &edit.before)?;
    let (after_text, after) = parse(format, &edit.after)?;
    let source = |text: &str, document: &Document<F::Layout>, index: usize| {
        let span = document.spans.get(index).cloned().unwrap_or_default();
        text.get(span).unwrap_or_default().to_owned()
    };
    let was: HashMap<&str, usize> =
        before.items.iter().enumerate().map(|(n, item)| (item.id.as_str(), n)).collect();
    let is: HashSet<&str> = after.items.iter().map(|item| item.id.as_str()).collect();

    let document = format.parse(base)?;
    let removed: Vec<usize> = document
        .items
        .iter()
        .enumerate()
        .filter(|(_, item)| was.contains_key(item.id.as_str()) && !is.contains(item.id.as_str()))
        .map(|(index, _)| index)
        .collect();
    let mut text = apply_edits(base, format.remove_items(base, &document, &removed));
    let mut predecessor: Option<&str> = None;
    for (index, item) in after.items.iter().enumerate() {
        let new = source(after_text, &after, index);
        let old = was.get(item.id.as_str()).copied();
        let is_same = old.is_some_and(|old| source(before_text, &before, old) == new);
        if !is_same {
            let keep = old.and_then(|old| before.items.get(old));
            let keep = keep.filter(|old| old.status == item.status).is_some();
            text = put_item(format, &text, &item.id, &new, predecessor, keep)?;
        }
        predecessor = Some(&item.id);
    }
    Ok(text)
}

/// Replaces the source of an item, or inserts it after another. With `keep_status`, an item that
/// exists keeps the status it has.
fn put_item<F: TextFormat>(
    format: &F,
    text: &str,
    id: &str,
    source: &str,
    after: Option<&str>,
    keep_status: bool,
) -> Result<String, Defects> {
    let document = format.parse(text)?;
    let find = |id: &str| document.items.iter().position(|item| item.id == id);
    let Some((index, old)) = find(id).and_then(|n| document.items.get(n).map(|old| (n, old)))
    else {
        let edit = format.insert_source(text, &document, after.and_then(find), source);
        return Ok(apply_edits(text, vec![edit]));
    };
    let span = document.spans.get(index).cloned().unwrap_or_default();
    let replaced = apply_edits(text, vec![TextEdit::replace(span, source)]);
    if !keep_status {
        return Ok(replaced);
    }
    let document = format.parse(&replaced)?;
    let edits = format.edit_status(&replaced, &document, index, old.status);
    Ok(apply_edits(&replaced, edits.unwrap_or_default()))
}
