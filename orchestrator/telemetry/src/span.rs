//! A span, and the ids that are always the same for the same part of a run.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The longest text of an attribute, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

/// A part of a run with its beginning and end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// 8 bytes in hexadecimal digits.
    pub id: String,
    /// The span that this one is a part of; the run itself has none.
    pub parent: Option<String>,
    /// What happened.
    pub name: String,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; never before its start.
    pub end: Timestamp,
    /// Facts about it: text, numbers and truth values.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl Span {
    pub(crate) fn new(
        id: String,
        parent: Option<&str>,
        name: impl Into<String>,
        start: Timestamp,
    ) -> Self {
        let (parent, name) = (parent.map(str::to_owned), name.into());
        Self { id, parent, name, start, end: start, attributes: Vec::new(), failure: None }
    }

    /// Ends it; a clock that was put back ends it where it began.
    pub(crate) fn end_at(&mut self, time: Timestamp) {
        self.end = time.max(self.start);
    }

    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::String(text) => json!(cut(&text)),
            value => value,
        };
        self.attributes.push((name, value));
    }

    pub(crate) fn add_some(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// The id of the trace of a run: 16 bytes in hexadecimal digits.
pub(crate) fn trace_id(run: &str) -> String {
    hex(run, "trace", 32)
}

/// The id of the span that begins with this record, or of a part of it.
pub(crate) fn span_id(run: &str, seq: u64, part: &str) -> String {
    hex(run, &format!("{seq}:{part}"), 16)
}

fn hex(run: &str, of: &str, digits: usize) -> String {
    let digest = blake3::hash(format!("{run}\n{of}").as_bytes()).to_hex();
    digest.get(..digits).unwrap_or_default().to_owned()
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let text = "ä".repeat(LONGEST_TEXT);
        assert_eq!(cut(&text).len(), LONGEST_TEXT);
        let text = format!("a{text}");
        assert_eq!(cut(&text).len(), LONGEST_TEXT - 1);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn ids_depend_on_the_run_the_record_and_the_part() {
        let one = span_id("r", 1, "");
        assert_eq!(one.len(), 16);
        assert_eq!(trace_id("r").len(), 32);
        for other in [span_id("s", 1, ""), span_id("r", 2, ""), span_id("r", 1, "x")] {
            assert_ne!(one, other);
        }
    }
}
