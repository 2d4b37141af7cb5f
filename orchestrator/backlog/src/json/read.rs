//! Reads the items of a JSON backlog.

use std::ops::Range;

use serde_json::Value;

use super::dialect::{DefaultPriority, Dialect, FEATURE_ARRAY, FEATURE_LIST, PRD, StatusField};
use super::raw::{Member, locate_error, read_elements, read_members};
use crate::error::{BacklogDefect, DefectKind};
use crate::item::{BacklogItem, ItemStatus};
use crate::text::Locator;
use crate::text_format::Document;

/// What edits need to know of a JSON text.
#[derive(Debug)]
pub(crate) struct JsonLayout {
    pub(super) dialect: &'static Dialect,
    /// The array of items.
    pub(super) array: Range<usize>,
    /// The members of the document; empty if it is an array.
    pub(super) frame: Vec<Member>,
    /// The members of each item.
    pub(super) members: Vec<Vec<Member>>,
}

/// What JSON ignores between values.
const JSON_WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// The fields in which an item has a command; the first that has one counts.
const COMMANDS: [&str; 3] = ["verify", "test", "test_command"];

const STRUCTURE: &str = "an object with `features` or `userStories`, or an array of features";

pub(super) fn read_document(text: &str) -> Result<Document<JsonLayout>, Vec<BacklogDefect>> {
    let mut locator = Locator::new(text);
    let (dialect, frame, array) = find_items(text, &mut locator).map_err(|defect| vec![defect])?;
    let elements = read_elements(text, &array).map_err(|_| {
        let key = dialect.items_key.unwrap_or_default();
        let kind = DefectKind::Structure(format!("`{key}` to be an array of objects"));
        vec![BacklogDefect { location: Some(locator.locate(array.start)), item: None, kind }]
    })?;
    let mut defects = Vec::new();
    let mut items = Vec::with_capacity(elements.len());
    let mut layouts = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        let mut reader = ItemReader {
            text,
            dialect,
            index,
            id: None,
            members: Vec::new(),
            locator: &mut locator,
            defects: &mut defects,
        };
        if let Some(item) = reader.read_item(element) {
            items.push(item);
            layouts.push(reader.members);
        }
    }
    if !defects.is_empty() {
        return Err(defects);
    }
    let layout = JsonLayout { dialect, array, frame, members: layouts };
    Ok(Document { items, spans: elements, order: dialect.order, layout })
}

type Items = (&'static Dialect, Vec<Member>, Range<usize>);

/// Finds the array of items, and the tool whose file it is.
fn find_items(text: &str, locator: &mut Locator<'_>) -> Result<Items, BacklogDefect> {
    let base = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let body = text.get(base..).unwrap_or_default();
    let trimmed = body.trim_start_matches(JSON_WHITESPACE);
    let is_array = trimmed.starts_with('[');
    let start = text.len() - trimmed.len();
    let span = start..start + trimmed.trim_end_matches(JSON_WHITESPACE).len();
    let mut locate = |offset: usize| Some(locator.locate(offset));
    let mut structure = |expected: &str, at: usize| BacklogDefect {
        location: locate(at),
        item: None,
        kind: DefectKind::Structure(expected.to_owned()),
    };
    let parsed = if is_array {
        read_elements(text, &span).map(|_| Vec::new())
    } else {
        read_members(text, &span)
    };
    let frame = match parsed {
        Ok(frame) => frame,
        Err(error) if error.is_data() => return Err(structure(STRUCTURE, start)),
        Err(error) => {
            let (offset, message) = locate_error(text, start, &error);
            let kind = DefectKind::Syntax(message);
            return Err(BacklogDefect { location: locate(offset), item: None, kind });
        }
    };
    if is_array {
        return Ok((&FEATURE_ARRAY, frame, span));
    }
    let mut found = frame.iter().filter_map(|member| {
        let dialects = [&FEATURE_LIST, &PRD].into_iter();
        let dialect = dialects.clone().find(|d| d.items_key == Some(member.key.as_str()))?;
        Some((dialect, member.value.clone()))
    });
    let Some((dialect, array)) = found.next() else { return Err(structure(STRUCTURE, start)) };
    if let Some((_, second)) = found.next() {
        return Err(structure("one array of items, not two", second.start));
    }
    Ok((dialect, frame, array))
}

struct ItemReader<'a, 't> {
    text: &'t str,
    dialect: &'static Dialect,
    index: usize,
    id: Option<String>,
    members: Vec<Member>,
    locator: &'a mut Locator<'t>,
    defects: &'a mut Vec<BacklogDefect>,
}

impl ItemReader<'_, '_> {
    fn report(&mut self, at: usize, kind: DefectKind) {
        let location = Some(self.locator.locate(at));
        self.defects.push(BacklogDefect { location, item: self.id.clone(), kind });
    }

    fn wrong_type(&mut self, at: usize, field: &str, expected: &str) {
        let (field, expected) = (field.to_owned(), expected.to_owned());
        self.report(at, DefectKind::WrongType { field, expected });
    }

    /// Reads one item; `None`, with defects reported, if it is none.
    fn read_item(&mut self, element: &Range<usize>) -> Option<BacklogItem> {
        let start = element.start;
        let location = Some(self.locator.locate(start));
        let Ok(members) = read_members(self.text, element) else {
            self.report(start, DefectKind::Structure("each item to be an object".to_owned()));
            return None;
        };
        self.members = members;
        self.id = self.read_id(start);
        self.check_keys();
        let number = i64::try_from(self.index + 1).unwrap_or(i64::MAX);
        let title = self.read_text(self.dialect.title, start, !self.dialect.unnamed);
        let description = self.read_text("description", start, !self.dialect.undescribed);
        let status = self.read_status();
        let priority = self.read_priority(number);
        let criteria = self.read_list(self.dialect.criteria);
        let dependencies = self.read_list(self.dialect.dependencies);
        let notes = self.read_notes();
        Some(BacklogItem {
            id: self.id.clone()?,
            title: title.unwrap_or_else(|| format!("Feature {number}")),
            description: description.unwrap_or_default(),
            status: status?,
            priority: priority?,
            criteria: criteria?,
            dependencies: dependencies?,
            notes: notes?,
            verify: self.read_command(),
            location,
        })
    }

    /// Returns the decoded value of a field and where it begins; `None` if it is missing or null.
    fn find(&mut self, key: &str) -> Option<(usize, Value)> {
        let span = self.members.iter().find(|member| member.key == key)?.value.clone();
        let source = self.text.get(span.clone()).unwrap_or_default();
        match serde_json::from_str(source) {
            Ok(Value::Null) => None,
            Ok(value) => Some((span.start, value)),
            Err(error) => {
                let (offset, message) = locate_error(self.text, span.start, &error);
                self.report(offset, DefectKind::Syntax(message));
                None
            }
        }
    }

    fn read_id(&mut self, start: usize) -> Option<String> {
        match self.find("id") {
            Some((_, Value::String(id))) if !id.trim().is_empty() => Some(id),
            Some((_, Value::Number(id))) if id.is_i64() => Some(id.to_string()),
            Some((at, _)) => {
                self.wrong_type(at, "id", "a text that is not empty, or a whole number");
                None
            }
            None if self.dialect.unnamed => Some((self.index + 1).to_string()),
            None => {
                self.report(start, DefectKind::MissingField("id".to_owned()));
                None
            }
        }
    }

    fn check_keys(&mut self) {
        let mut seen = std::collections::HashSet::new();
        let repeated = self
            .members
            .iter()
            .filter(|m| !seen.insert(m.key.as_str()))
            .cloned()
            .collect::<Vec<_>>();
        for member in repeated {
            self.report(member.value.start, DefectKind::DuplicateKey(member.key));
        }
    }

    fn read_text(&mut self, key: &str, start: usize, required: bool) -> Option<String> {
        match self.find(key) {
            Some((_, Value::String(text))) => Some(text),
            Some((at, _)) => {
                self.wrong_type(at, key, "a text");
                None
            }
            None => {
                if required {
                    self.report(start, DefectKind::MissingField(key.to_owned()));
                }
                None
            }
        }
    }

    fn read_status(&mut self) -> Option<ItemStatus> {
        if self.dialect.status == StatusField::Word {
            return match self.find("status") {
                None => Some(ItemStatus::Pending),
                Some((at, Value::String(word))) => {
                    let status = ItemStatus::from_word(&word);
                    if status.is_none() {
                        self.report(at, DefectKind::WrongStatus(word));
                    }
                    status
                }
                Some((at, other)) => {
                    self.report(at, DefectKind::WrongStatus(other.to_string()));
                    None
                }
            };
        }
        let passes = self.read_flag("passes")?;
        let in_progress = self.dialect.status == StatusField::PassesAndInProgress
            && self.read_flag("in_progress")?;
        Some(match (passes, in_progress) {
            (true, _) => ItemStatus::Completed,
            (false, true) => ItemStatus::InProgress,
            (false, false) => ItemStatus::Pending,
        })
    }

    fn read_flag(&mut self, key: &str) -> Option<bool> {
        match self.find(key) {
            None => Some(false),
            Some((_, Value::Bool(flag))) => Some(flag),
            Some((at, _)) => {
                self.wrong_type(at, key, "true or false");
                None
            }
        }
    }

    fn read_priority(&mut self, number: i64) -> Option<i64> {
        let Some((at, value)) = self.find("priority") else {
            return Some(match self.dialect.priority {
                DefaultPriority::Zero => 0,
                DefaultPriority::Number => number,
            });
        };
        let priority = value.as_i64();
        if priority.is_none() {
            self.wrong_type(at, "priority", "a whole number");
        }
        priority
    }

    /// Reads a list of texts under the first of these keys that exists. Ids may be numbers.
    fn read_list(&mut self, keys: &[&str]) -> Option<Vec<String>> {
        for key in keys {
            let Some((at, value)) = self.find(key) else { continue };
            let list = value.as_array().and_then(|list| list.iter().map(text_of).collect());
            if list.is_none() {
                self.wrong_type(at, key, "a list of texts");
            }
            return list;
        }
        Some(Vec::new())
    }

    /// Reads the command of an item: a text, or a list of texts that all have to succeed. Anything else is another tool's, and
    /// none.
    fn read_command(&mut self) -> Option<String> {
        COMMANDS.iter().find_map(|key| {
            let lines = match self.find(key)?.1 {
                Value::String(line) => vec![line],
                Value::Array(list) => list.iter().map(text_of).collect::<Option<_>>()?,
                _ => return None,
            };
            let line = lines.join(" && ");
            (!line.trim().is_empty()).then_some(line)
        })
    }

    /// Reads notes: a list of texts, or one text.
    fn read_notes(&mut self) -> Option<Vec<String>> {
        match self.find(self.dialect.notes) {
            Some((_, Value::String(note))) if note.is_empty() => Some(Vec::new()),
            Some((_, Value::String(note))) => Some(vec![note]),
            _ => self.read_list(&[self.dialect.notes]),
        }
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_i64() => Some(number.to_string()),
        _ => None,
    }
}
