//! Text, positions in it, and edits of it by spans.

use std::ops::Range;

use crate::error::{BacklogDefect, DefectKind};
use crate::item::TextLocation;

/// Replaces one span of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextEdit {
    /// The bytes to replace; empty to insert.
    pub(crate) span: Range<usize>,
    /// What takes their place.
    pub(crate) text: String,
}

impl TextEdit {
    pub(crate) fn replace(span: Range<usize>, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }

    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { span: at..at, text: text.into() }
    }
}

/// Applies edits that do not overlap. Of two insertions at one position, the earlier comes first.
pub(crate) fn apply_edits(text: &str, mut edits: Vec<TextEdit>) -> String {
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut result = String::with_capacity(text.len() + added);
    let mut from = 0;
    for edit in edits {
        result.push_str(text.get(from..edit.span.start).unwrap_or_default());
        result.push_str(&edit.text);
        from = edit.span.end.max(from);
    }
    result.push_str(text.get(from..).unwrap_or_default());
    result
}

/// Returns the text of bytes that have to be UTF-8.
pub(crate) fn read_utf8(bytes: &[u8]) -> Result<&str, BacklogDefect> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let text = std::str::from_utf8(valid).unwrap_or_default();
        BacklogDefect {
            location: Some(Locator::new(text).locate(valid.len())),
            item: None,
            kind: DefectKind::Syntax("the text is not UTF-8; save it as UTF-8".to_owned()),
        }
    })
}

/// Finds lines and columns; fast for positions that ascend.
pub(crate) struct Locator<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
    line_start: usize,
}

impl<'a> Locator<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, offset: 0, line: 1, line_start: 0 }
    }

    /// Returns the position of a byte offset. A byte order mark is no column.
    pub(crate) fn locate(&mut self, offset: usize) -> TextLocation {
        if offset < self.offset {
            *self = Self::new(self.text);
        }
        let skipped = self.text.get(self.offset..offset).unwrap_or_default();
        self.line += skipped.bytes().filter(|byte| *byte == b'\n').count();
        if let Some(newline) = skipped.rfind('\n') {
            self.line_start = self.offset + newline + 1;
        }
        self.offset = offset;
        let before = self.text.get(self.line_start..offset).unwrap_or_default();
        let before = before.strip_prefix('\u{feff}').unwrap_or(before);
        TextLocation { line: self.line, column: before.chars().count() + 1 }
    }
}

/// Returns the line ending that the text uses first; `\n` if it has one line.
pub(crate) fn line_ending(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// Makes an id of a title: lower-case letters and digits, joined by `-`, at most 60 characters.
pub(crate) fn slugify(title: &str) -> String {
    let mut slug = String::new();
    for word in title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if slug.chars().count() >= 60 {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().flat_map(char::to_lowercase));
    }
    let slug: String = slug.chars().take(60).collect();
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "item".to_owned() } else { slug.to_owned() }
}

/// Returns `base`, or `base-2`, `base-3`, … if it is taken.
pub(crate) fn free_id(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(base) {
        return base.to_owned();
    }
    let mut number: u64 = 2;
    loop {
        let id = format!("{base}-{number}");
        if !is_taken(&id) {
            return id;
        }
        number += 1;
    }
}
