//! The beginning and the end of a stream, in bounded memory.

use std::borrow::Cow;
use std::collections::VecDeque;

/// How much of a stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureLimit {
    /// Bytes from its beginning; 64 KiB by default.
    pub head: usize,
    /// Bytes from its end; 256 KiB by default.
    pub tail: usize,
}

impl Default for CaptureLimit {
    fn default() -> Self {
        Self { head: 64 * 1024, tail: 256 * 1024 }
    }
}

/// Keeps the beginning and the end of a stream.
#[derive(Clone, Debug)]
pub struct Capture {
    limit: CaptureLimit,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    cut: u64,
}

impl Capture {
    /// An empty one.
    #[must_use]
    pub fn new(limit: CaptureLimit) -> Self {
        Self { limit, head: Vec::new(), tail: VecDeque::new(), cut: 0 }
    }

    /// Takes the next piece of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.limit.head.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(head);
        let skip = rest.len().saturating_sub(self.limit.tail);
        let rest = rest.get(skip..).unwrap_or_default();
        let over = (self.tail.len() + rest.len()).saturating_sub(self.limit.tail);
        self.tail.drain(..over);
        self.tail.extend(rest);
        self.cut = self.cut.saturating_add(u64::try_from(skip + over).unwrap_or(u64::MAX));
    }

    /// What was kept.
    #[must_use]
    pub fn finish(self) -> Captured {
        Captured { head: self.head, cut: self.cut, tail: self.tail.into() }
    }
}

/// What was kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Its beginning.
    pub head: Vec<u8>,
    /// How many bytes between the beginning and the end were not kept. If none, `head` and `tail`
    /// together are the whole stream.
    pub cut: u64,
    /// Its end.
    pub tail: Vec<u8>,
}

impl Captured {
    /// What was kept as text, with a line in the middle that says what was cut. Bytes that are no
    /// UTF-8 are replaced by U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        if self.cut == 0 {
            return lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned();
        }
        let (head, tail) = (lossy(&self.head), lossy(&self.tail));
        format!("{head}\n[… {} bytes cut …]\n{tail}", self.cut)
    }

    /// Whether the stream was empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.cut == 0
    }
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
