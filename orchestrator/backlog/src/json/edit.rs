//! Edits of JSON text by spans, in the style of what is there.

use std::ops::Range;

use serde_json::Value;

use super::raw::{Member, read_elements};
use crate::text::{TextEdit, line_ending};

/// Indentation of one level where the text shows none.
const DEFAULT_INDENT: &str = "  ";

/// Returns a JSON text, quoted.
pub(super) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the edit that gives a key this value: replaced where it is, added at the end else.
pub(super) fn set_member(
    text: &str,
    object: &Range<usize>,
    members: &[Member],
    key: &str,
    value: &str,
) -> TextEdit {
    if let Some(member) = members.iter().find(|member| member.key == key) {
        return TextEdit::replace(member.value.clone(), value);
    }
    let Some(last) = members.last() else {
        return TextEdit::insert(object.start + 1, format!("{}: {value}", quote(key)));
    };
    let from = members.iter().rev().nth(1).map_or(object.start + 1, |before| before.value.end);
    let (lead, colon) = key_style(text.get(from..last.value.start).unwrap_or_default());
    TextEdit::insert(last.value.end, format!(",{lead}{}{colon}{value}", quote(key)))
}

/// Returns the whitespace before a key and what separates it from its value, given the text from
/// the end of the value before to the beginning of its own.
fn key_style(gap: &str) -> (&str, &str) {
    let lead = gap.split('"').next().unwrap_or_default();
    let lead = lead.rsplit(',').next().unwrap_or_default();
    let colon = gap.rsplit('"').next().filter(|colon| colon.contains(':')).unwrap_or(": ");
    (lead, colon)
}

/// Returns the edit that appends an element to an array, or `None` if the span is no array.
pub(super) fn append_element(text: &str, array: &Range<usize>, element: &str) -> Option<TextEdit> {
    let elements = read_elements(text, array).ok()?;
    let Some(last) = elements.last() else {
        return Some(TextEdit::replace(array.start + 1..array.end - 1, element));
    };
    let lead = lead_of(text, array, &elements);
    Some(TextEdit::insert(last.end, format!(",{lead}{element}")))
}

/// Returns the whitespace before an array's last element.
pub(super) fn lead_of<'a>(
    text: &'a str,
    array: &Range<usize>,
    elements: &[Range<usize>],
) -> &'a str {
    let Some(last) = elements.last() else { return "" };
    let from = elements.iter().rev().nth(1).map_or(array.start + 1, |before| before.end);
    let gap = text.get(from..last.start).unwrap_or_default();
    gap.rsplit(',').next().unwrap_or_default()
}

/// How an object in an array is written.
pub(super) struct ObjectStyle {
    /// What ends a line and begins the object; `None` to write it on one line.
    lines: Option<(&'static str, String)>,
    /// One level of indentation.
    unit: String,
}

impl ObjectStyle {
    /// Finds the style of an array's elements; without any, that of what is around it.
    pub(super) fn detect(text: &str, array: &Range<usize>, elements: &[Range<usize>]) -> Self {
        let newline = line_ending(text);
        if let Some(last) = elements.last() {
            let source = text.get(last.clone()).unwrap_or_default();
            let lead = lead_of(text, array, elements);
            let Some((_, base)) = lead.rsplit_once('\n') else { return Self::one_line() };
            let inner = source.split_once('\n').map(|(_, rest)| leading_whitespace(rest));
            let Some(inner) = inner else { return Self::one_line() };
            let unit = inner.strip_prefix(base).filter(|unit| !unit.is_empty());
            let unit = unit.unwrap_or(DEFAULT_INDENT).to_owned();
            return Self { lines: Some((newline, base.to_owned())), unit };
        }
        let before = text.get(..array.start).unwrap_or_default();
        if before.is_empty() || !before.contains('\n') {
            let base = DEFAULT_INDENT.to_owned();
            return Self { lines: Some((newline, base)), unit: DEFAULT_INDENT.to_owned() };
        }
        let line = before.rsplit('\n').next().unwrap_or_default();
        let unit = Some(leading_whitespace(line)).filter(|unit| !unit.is_empty());
        let unit = unit.unwrap_or(DEFAULT_INDENT).to_owned();
        Self { lines: Some((newline, format!("{unit}{unit}"))), unit }
    }

    fn one_line() -> Self {
        Self { lines: None, unit: String::new() }
    }

    /// Returns what stands between the brackets of an array with this object only.
    pub(super) fn wrap_first(&self, object: &str) -> String {
        let Some((newline, base)) = &self.lines else { return object.to_owned() };
        let closing = base.strip_suffix(self.unit.as_str()).unwrap_or_default();
        format!("{newline}{base}{object}{newline}{closing}")
    }

    /// Writes an object with these members in this order.
    pub(super) fn write(&self, members: &[(&str, Value)]) -> String {
        let Some((newline, base)) = &self.lines else {
            let members: Vec<_> =
                members.iter().map(|(key, value)| format!("{}: {value}", quote(key))).collect();
            return format!("{{{}}}", members.join(", "));
        };
        let inner = format!("{newline}{base}{}", self.unit);
        let member = |(key, value): &(&str, Value)| {
            format!("{inner}{}: {}", quote(key), self.write_value(value, &inner))
        };
        let members: Vec<_> = members.iter().map(member).collect();
        format!("{{{}{newline}{base}}}", members.join(","))
    }

    fn write_value(&self, value: &Value, inner: &str) -> String {
        let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
            return value.to_string();
        };
        let lines: Vec<_> = list.iter().map(|v| format!("{inner}{}{v}", self.unit)).collect();
        format!("[{}{inner}]", lines.join(","))
    }
}

fn leading_whitespace(line: &str) -> &str {
    let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(line.len());
    line.get(..end).unwrap_or_default()
}
