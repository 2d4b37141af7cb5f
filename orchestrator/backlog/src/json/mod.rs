//! JSON backlogs: feature-list.json, prd.json, feature_list.json.

mod dialect;
mod edit;
mod raw;
mod read;

use std::ops::Range;

use serde_json::{Map, Value};

use self::dialect::{Dialect, FEATURE_ARRAY, IdStyle, StatusField};
use self::edit::{ObjectStyle, append_element, quote, set_member};
use self::raw::Member;
pub(crate) use self::read::JsonLayout;
use crate::error::BacklogDefect;
use crate::item::{ItemStatus, NewItem};
use crate::kind::BacklogKind;
use crate::text::{TextEdit, free_id, slugify};
use crate::text_format::{AddProblem, Document, TextFormat};

/// The format `json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonFormat;

type JsonDocument = Document<JsonLayout>;

fn members_of(document: &JsonDocument, index: usize) -> &[Member] {
    document.layout.members.get(index).map_or(&[], Vec::as_slice)
}

fn find_member<'a>(members: &'a [Member], key: &str) -> Option<&'a Member> {
    members.iter().find(|member| member.key == key)
}

fn decode(text: &str, span: &Range<usize>) -> Value {
    serde_json::from_str(text.get(span.clone()).unwrap_or_default()).unwrap_or_default()
}

impl TextFormat for JsonFormat {
    type Layout = JsonLayout;

    const KIND: BacklogKind = BacklogKind::Json;
    const EXAMPLE: &'static str = include_str!("example.json");

    fn parse(&self, text: &str) -> Result<JsonDocument, Vec<BacklogDefect>> {
        read::read_document(text)
    }

    fn has_status(&self, document: &JsonDocument, status: ItemStatus) -> bool {
        match document.layout.dialect.status {
            StatusField::Word => true,
            StatusField::Passes => {
                matches!(status, ItemStatus::Pending | ItemStatus::Completed)
            }
            StatusField::PassesAndInProgress => status != ItemStatus::Blocked,
        }
    }

    fn edit_status(
        &self,
        text: &str,
        document: &JsonDocument,
        index: usize,
        status: ItemStatus,
    ) -> Option<Vec<TextEdit>> {
        if !self.has_status(document, status) {
            return None;
        }
        let object = document.spans.get(index)?;
        let members = members_of(document, index);
        let set = |key, value: &str| set_member(text, object, members, key, value);
        if document.layout.dialect.status == StatusField::Word {
            return Some(vec![set("status", &quote(status.as_str()))]);
        }
        let flag = |on: bool| if on { "true" } else { "false" };
        let mut edits = vec![set("passes", flag(status == ItemStatus::Completed))];
        let in_progress = status == ItemStatus::InProgress;
        let has_field = find_member(members, "in_progress").is_some();
        if document.layout.dialect.status == StatusField::PassesAndInProgress
            && (in_progress || has_field)
        {
            edits.push(set("in_progress", flag(in_progress)));
        }
        Some(edits)
    }

    fn edit_note(
        &self,
        text: &str,
        document: &JsonDocument,
        index: usize,
        note: &str,
    ) -> Option<(TextEdit, Vec<String>)> {
        let object = document.spans.get(index)?;
        let mut notes = document.items.get(index)?.notes.clone();
        let members = members_of(document, index);
        let dialect = document.layout.dialect;
        let key = dialect.notes;
        let member = find_member(members, key);
        let value = member.map(|member| (member, decode(text, &member.value)));
        let edit = match value {
            Some((member, Value::String(old))) => {
                let joined =
                    if old.is_empty() { note.to_owned() } else { format!("{old}\n{note}") };
                notes = vec![joined.clone()];
                TextEdit::replace(member.value.clone(), quote(&joined))
            }
            Some((member, Value::Array(_))) => {
                notes.push(note.to_owned());
                append_element(text, &member.value, &quote(note))?
            }
            _ if dialect.empty_notes => {
                notes = vec![note.to_owned()];
                set_member(text, object, members, key, &quote(note))
            }
            _ => {
                notes = vec![note.to_owned()];
                set_member(text, object, members, key, &format!("[{}]", quote(note)))
            }
        };
        Some((edit, notes))
    }

    fn copy_notes(
        &self,
        (text, document, index): (&str, &JsonDocument, usize),
        (from_text, from, from_index): (&str, &JsonDocument, usize),
    ) -> Vec<TextEdit> {
        let key = document.layout.dialect.notes;
        let source = find_member(members_of(from, from_index), key)
            .and_then(|member| from_text.get(member.value.clone()));
        let (Some(source), Some(object)) = (source, document.spans.get(index)) else {
            return Vec::new();
        };
        vec![set_member(text, object, members_of(document, index), key, source)]
    }

    fn edit_add(
        &self,
        text: &str,
        document: &JsonDocument,
        item: &NewItem,
    ) -> Result<TextEdit, AddProblem> {
        let layout = &document.layout;
        let id = choose_id(document, item)?;
        let style = ObjectStyle::detect(text, &layout.array, &document.spans);
        let object = style.write(&new_members(document, item, &id)?);
        if document.spans.is_empty() {
            let inside = layout.array.start + 1..layout.array.end - 1;
            return Ok(TextEdit::replace(inside, style.wrap_first(&object)));
        }
        append_element(text, &layout.array, &object)
            .ok_or_else(|| AddProblem::Invalid("the list of items is no array".to_owned()))
    }

    fn insert_source(
        &self,
        text: &str,
        document: &JsonDocument,
        after: Option<usize>,
        source: &str,
    ) -> TextEdit {
        let array = &document.layout.array;
        let lead = edit::lead_of(text, array, &document.spans);
        match after.and_then(|index| document.spans.get(index)) {
            Some(before) => TextEdit::insert(before.end, format!(",{lead}{source}")),
            None => match document.spans.first() {
                Some(first) => TextEdit::insert(first.start, format!("{source},{lead}")),
                None => TextEdit::replace(array.start + 1..array.end - 1, source),
            },
        }
    }

    fn remove_items(
        &self,
        _text: &str,
        document: &JsonDocument,
        indices: &[usize],
    ) -> Vec<TextEdit> {
        let spans = &document.spans;
        let array = &document.layout.array;
        if indices.len() == spans.len() {
            return vec![TextEdit::replace(array.start + 1..array.end - 1, "")];
        }
        // The separator before an item goes with it; before the first kept item, the one after.
        let first_kept =
            (0..spans.len()).find(|index| indices.binary_search(index).is_err()).unwrap_or(0);
        let mut edits = Vec::new();
        if let (Some(first), Some(kept)) = (spans.first(), spans.get(first_kept))
            && first_kept > 0
        {
            edits.push(TextEdit::replace(first.start..kept.start, ""));
        }
        for index in indices.iter().filter(|index| **index > first_kept) {
            if let (Some(before), Some(span)) = (spans.get(index - 1), spans.get(*index)) {
                edits.push(TextEdit::replace(before.end..span.end, ""));
            }
        }
        edits
    }

    fn protected_fields(
        &self,
        text: &str,
        document: &JsonDocument,
        index: usize,
    ) -> Map<String, Value> {
        let members = members_of(document, index).iter();
        let closed = members.filter(|member| !document.layout.dialect.is_open(&member.key));
        closed.map(|member| (member.key.clone(), decode(text, &member.value))).collect()
    }

    fn frame_fields(&self, text: &str, document: &JsonDocument) -> Map<String, Value> {
        let layout = &document.layout;
        let others = layout.frame.iter().filter(|member| member.value != layout.array);
        others.map(|member| (member.key.clone(), decode(text, &member.value))).collect()
    }
}

fn choose_id(document: &JsonDocument, item: &NewItem) -> Result<String, AddProblem> {
    let taken: std::collections::HashSet<_> =
        document.items.iter().map(|item| item.id.as_str()).collect();
    let style = document.layout.dialect.ids;
    if let Some(id) = &item.id {
        if style == IdStyle::Number && id.parse::<i64>().is_err() {
            return Err(AddProblem::Invalid(format!("the id `{id}` is not a whole number")));
        }
        return Ok(id.clone());
    }
    let number = |id: &str| id.trim_start_matches("US-").parse::<i64>().ok();
    let next = document
        .items
        .iter()
        .filter_map(|item| number(&item.id))
        .max()
        .unwrap_or(0)
        .saturating_add(1);
    Ok(match style {
        IdStyle::Slug => free_id(&slugify(&item.title), |id| taken.contains(id)),
        IdStyle::Story => format!("US-{next:03}"),
        IdStyle::Number => next.to_string(),
    })
}

/// Returns a new item's fields in the order in which its tool writes them.
fn new_members<'a>(
    document: &JsonDocument,
    item: &NewItem,
    id: &str,
) -> Result<Vec<(&'a str, Value)>, AddProblem> {
    let dialect: &'static Dialect = document.layout.dialect;
    let list = |texts: &[String]| Value::from(texts.to_vec());
    let first = |keys: &[&'static str]| keys.first().copied().unwrap_or_default();
    let next = document.items.iter().map(|item| item.priority).max().unwrap_or(0).saturating_add(1);
    let id_value = match (dialect.ids, id.parse::<i64>()) {
        (IdStyle::Number, Ok(number)) => Value::from(number),
        (IdStyle::Number, Err(_)) => {
            return Err(AddProblem::Invalid(format!("the id `{id}` is not a whole number")));
        }
        _ => Value::from(id),
    };
    let mut members = vec![("id", id_value)];
    let default = match dialect.priority {
        dialect::DefaultPriority::Zero => 0,
        dialect::DefaultPriority::Number => next,
    };
    members.push((dialect.title, Value::from(item.title.as_str())));
    members.push(("description", Value::from(item.description.as_str())));
    let is_array = std::ptr::eq(dialect, &raw const FEATURE_ARRAY);
    let category = item.category.as_deref().or(is_array.then_some("uncategorized"));
    members.extend(category.map(|category| ("category", Value::from(category))));
    members.push((first(dialect.criteria), list(&item.criteria)));
    members.push(("priority", Value::from(item.priority.unwrap_or(default))));
    if !item.dependencies.is_empty() || dialect.status == StatusField::Word {
        members.push((first(dialect.dependencies), list(&item.dependencies)));
    }
    members.push(match dialect.status {
        StatusField::Word => ("status", Value::from("pending")),
        StatusField::Passes | StatusField::PassesAndInProgress => ("passes", Value::from(false)),
    });
    if dialect.empty_notes {
        members.push((dialect.notes, Value::from("")));
    }
    Ok(members)
}
