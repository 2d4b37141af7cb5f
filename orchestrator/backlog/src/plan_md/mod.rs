//! Checkbox lists in Markdown: plan.md, `IMPLEMENTATION_PLAN.md`, `fix_plan.md`.
//!
//! An item is an entry with a checkbox in a list at the top level. Entries nested in it are its
//! acceptance criteria; those that begin with `Note: ` are its notes. A checkbox is checked or
//! not, so `in_progress` and `blocked` cannot be stored, and there are no dependencies.

mod read;
mod unread;

use serde_json::{Map, Value};

pub(crate) use self::read::PlanLayout;
use self::read::{NOTE_PREFIX, PlanEntry, collapse_whitespace};
use self::unread::find_unread;
use crate::error::BacklogDefect;
use crate::item::{ItemStatus, NewItem, UnreadLine};
use crate::kind::BacklogKind;
use crate::text::{TextEdit, apply_edits, line_ending};
use crate::text_format::{AddProblem, Document, TextFormat};

/// The format `plan-md`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanFormat;

type PlanDocument = Document<PlanLayout>;

fn entry_at(document: &PlanDocument, index: usize) -> Option<&PlanEntry> {
    document.layout.entries.get(index)
}

/// Returns where the line begins that has this offset.
fn line_start(text: &str, offset: usize) -> usize {
    text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Returns whitespace as wide as the bullet before an item's checkbox.
fn content_indent(text: &str, entry: &PlanEntry) -> String {
    let start = line_start(text, entry.checkbox.start);
    let lead = text.get(start..entry.checkbox.start).unwrap_or_default();
    let lead = lead.strip_prefix('\u{feff}').unwrap_or(lead);
    lead.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
}

impl TextFormat for PlanFormat {
    type Layout = PlanLayout;

    const KIND: BacklogKind = BacklogKind::PlanMd;
    const EXAMPLE: &'static str = "- [ ] Users log in with a password\n- [ ] Users log out\n";

    fn parse(&self, text: &str) -> Result<PlanDocument, Vec<BacklogDefect>> {
        Ok(read::read_plan(text))
    }

    fn has_status(&self, _document: &PlanDocument, status: ItemStatus) -> bool {
        matches!(status, ItemStatus::Pending | ItemStatus::Completed)
    }

    fn edit_status(
        &self,
        _text: &str,
        document: &PlanDocument,
        index: usize,
        status: ItemStatus,
    ) -> Option<Vec<TextEdit>> {
        let mark = match status {
            ItemStatus::Pending => " ",
            ItemStatus::Completed => "x",
            ItemStatus::InProgress | ItemStatus::Blocked => return None,
        };
        let checkbox = &entry_at(document, index)?.checkbox;
        Some(vec![TextEdit::replace(checkbox.start + 1..checkbox.end - 1, mark)])
    }

    fn edit_note(
        &self,
        text: &str,
        document: &PlanDocument,
        index: usize,
        note: &str,
    ) -> Option<(TextEdit, Vec<String>)> {
        let entry = entry_at(document, index)?;
        let note = collapse_whitespace(note);
        let mut notes = document.items.get(index)?.notes.clone();
        notes.push(note.clone());
        Some((insert_note(text, entry, &note), notes))
    }

    fn copy_notes(
        &self,
        (text, document, index): (&str, &PlanDocument, usize),
        (_, from, from_index): (&str, &PlanDocument, usize),
    ) -> Vec<TextEdit> {
        let (Some(entry), Some(to_item), Some(from_item)) =
            (entry_at(document, index), document.items.get(index), from.items.get(from_index))
        else {
            return Vec::new();
        };
        let new = from_item.notes.iter().filter(|note| !to_item.notes.contains(note));
        new.map(|note| insert_note(text, entry, note)).collect()
    }

    fn copy_checks(
        &self,
        (text, document, index): (&str, &PlanDocument, usize),
        (from_text, from, from_index): (&str, &PlanDocument, usize),
    ) -> Vec<TextEdit> {
        let (Some(entry), Some(from)) = (entry_at(document, index), entry_at(from, from_index))
        else {
            return Vec::new();
        };
        if protected_text(text, entry) != protected_text(from_text, from) {
            return Vec::new();
        }
        let boxes = checked_boxes(entry).zip(checked_boxes(from));
        let marks = boxes.filter_map(|(to, from)| Some((to, from_text.get(from.clone())?)));
        let changed = marks.filter(|(to, mark)| text.get((*to).clone()) != Some(*mark));
        changed.map(|(to, mark)| TextEdit::replace(to.clone(), mark)).collect()
    }

    fn prose(&self, text: &str, document: &PlanDocument) -> Vec<String> {
        let items = document.layout.entries.iter();
        let without = items.map(|entry| TextEdit::replace(entry.span.clone(), "")).collect();
        let prose = apply_edits(text, without);
        let lines = prose.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }

    fn find_unread(&self, text: &str, document: &PlanDocument) -> Vec<UnreadLine> {
        find_unread(text, &document.layout.entries)
    }

    fn edit_add(
        &self,
        text: &str,
        document: &PlanDocument,
        item: &NewItem,
    ) -> Result<TextEdit, AddProblem> {
        let absent = [
            (item.id.is_some(), "an id (it is derived from the title)"),
            (item.priority.is_some(), "a priority (the order is the file's)"),
            (item.category.is_some(), "a category"),
            (!item.dependencies.is_empty(), "dependencies (the order is the file's)"),
        ];
        if let Some((_, what)) = absent.into_iter().find(|(is_given, _)| *is_given) {
            return Err(AddProblem::NotStorable(what.to_owned()));
        }
        let newline = line_ending(text);
        let last = document.layout.entries.last();
        let bullet = last.and_then(|entry| text.get(entry.span.start..entry.checkbox.start));
        let bullet = bullet.unwrap_or("- ");
        let indent = " ".repeat(bullet.chars().count());
        let mut source = format!("{bullet}[ ] {}", collapse_whitespace(&item.title));
        if !item.description.trim().is_empty() {
            source.push_str(newline);
            for line in item.description.trim().lines() {
                source.push_str(newline);
                if !line.trim().is_empty() {
                    source.push_str(&format!("{indent}{}", line.trim_end()));
                }
            }
            source.push_str(newline);
        }
        for criterion in &item.criteria {
            source.push_str(&format!("{newline}{indent}- {}", collapse_whitespace(criterion)));
        }
        let after = document.layout.entries.len().checked_sub(1);
        Ok(self.insert_source(text, document, after, source.trim_end()))
    }

    fn insert_source(
        &self,
        text: &str,
        document: &PlanDocument,
        after: Option<usize>,
        source: &str,
    ) -> TextEdit {
        let newline = line_ending(text);
        if let Some(entry) = after.and_then(|index| entry_at(document, index)) {
            return TextEdit::insert(entry.span.end, format!("{newline}{source}"));
        }
        if let Some(first) = document.layout.entries.first() {
            return TextEdit::insert(first.span.start, format!("{source}{newline}"));
        }
        let lead = match text {
            "" | "\u{feff}" => String::new(),
            text if text.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        TextEdit::insert(text.len(), format!("{lead}{source}{newline}"))
    }

    fn remove_items(
        &self,
        text: &str,
        document: &PlanDocument,
        indices: &[usize],
    ) -> Vec<TextEdit> {
        let entries = indices.iter().filter_map(|index| entry_at(document, *index));
        let edit = |entry: &PlanEntry| {
            let rest = text.get(entry.span.end..).unwrap_or_default();
            let blank = rest.find('\n').map_or(rest.len(), |newline| newline + 1);
            TextEdit::replace(line_start(text, entry.span.start)..entry.span.end + blank, "")
        };
        entries.map(edit).collect()
    }

    fn protected_fields(
        &self,
        text: &str,
        document: &PlanDocument,
        index: usize,
    ) -> Map<String, Value> {
        let source =
            entry_at(document, index).map_or_else(String::new, |e| protected_text(text, e));
        Map::from_iter([("text".to_owned(), Value::from(source))])
    }

    fn frame_fields(&self, _text: &str, _document: &PlanDocument) -> Map<String, Value> {
        // Prose around the items is the agent's to edit.
        Map::new()
    }
}

fn insert_note(text: &str, entry: &PlanEntry, note: &str) -> TextEdit {
    let (newline, indent) = (line_ending(text), content_indent(text, entry));
    TextEdit::insert(entry.span.end, format!("{newline}{indent}- {NOTE_PREFIX}{note}"))
}

/// Returns the checkboxes nested in an item, but for those in notes.
fn checked_boxes(entry: &PlanEntry) -> impl Iterator<Item = &std::ops::Range<usize>> {
    let is_in_note = |range: &std::ops::Range<usize>| {
        entry.notes.iter().any(|note| note.start <= range.start && range.end <= note.end)
    };
    entry.nested_boxes.iter().filter(move |range| !is_in_note(range))
}

/// Returns an item's source without checks, notes and blank space at line ends.
fn protected_text(text: &str, entry: &PlanEntry) -> String {
    let shift = |range: &std::ops::Range<usize>| {
        range.start.saturating_sub(entry.span.start)..range.end.saturating_sub(entry.span.start)
    };
    let boxes = std::iter::once(&entry.checkbox).chain(checked_boxes(entry));
    let mut edits: Vec<_> = boxes.map(|range| TextEdit::replace(shift(range), "[ ]")).collect();
    edits.extend(entry.notes.iter().map(|range| TextEdit::replace(shift(range), "")));
    let source = text.get(entry.span.clone()).unwrap_or_default();
    let source = apply_edits(source, edits);
    let lines = source.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}
