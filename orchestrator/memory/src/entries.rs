//! Entries of a progress file, found by their headings.

/// The length of the rule at the beginning of a session's entry.
pub(crate) const RULE: usize = 60;

/// The form of a progress file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFormat {
    /// A rule of 60 `=`, the session's fields, a blank line and text.
    Sessions,
    /// Headings of the second level.
    Markdown,
}

impl EntryFormat {
    /// Returns what a new file begins with.
    #[must_use]
    pub const fn preamble(self) -> &'static [u8] {
        match self {
            Self::Sessions => b"",
            Self::Markdown => b"# Progress\n\n",
        }
    }

    fn is_heading(self, line: &[u8]) -> bool {
        match self {
            Self::Sessions => {
                let line = line.trim_ascii_end();
                line.len() == RULE && line.iter().all(|byte| *byte == b'=')
            }
            Self::Markdown => line.starts_with(b"## "),
        }
    }
}

/// A file in its parts, which together are the whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryList<'a> {
    /// What comes before the first heading.
    pub preamble: &'a [u8],
    /// The entries, the oldest first, each with its heading.
    pub entries: Vec<&'a [u8]>,
}

/// Splits a file at the headings of its entries.
#[must_use]
pub fn split_entries(format: EntryFormat, content: &[u8]) -> EntryList<'_> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if format.is_heading(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let first = starts.first().copied().unwrap_or(content.len());
    let ends = starts.iter().skip(1).copied().chain([content.len()]);
    let entries = starts.iter().copied().zip(ends);
    EntryList {
        preamble: content.get(..first).unwrap_or_default(),
        entries: entries.filter_map(|(from, to)| content.get(from..to)).collect(),
    }
}

/// Whether an entry begins in this text.
#[must_use]
pub fn has_heading(format: EntryFormat, text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| format.is_heading(line))
}

/// Returns the file with an entry at its end, on a line of its own.
#[must_use]
pub fn append_entry(content: &[u8], entry: &[u8]) -> Vec<u8> {
    let newline: &[u8] = if content.is_empty() || content.ends_with(b"\n") { b"" } else { b"\n" };
    [content, newline, entry].concat()
}
