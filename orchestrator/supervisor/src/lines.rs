//! Lines out of bytes that come in pieces, in bounded memory.

use std::borrow::Cow;

/// Above this, in bytes, memory of a long line is given back when the line is complete.
const KEEP: usize = 64 * 1024;

/// A line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its text; bytes that are no UTF-8 are replaced by U+FFFD.
    pub text: Cow<'a, str>,
    /// How many bytes beyond the longest allowed line were dropped.
    pub dropped: u64,
}

/// Splits a stream of bytes into lines, which end with LF or CR LF. A CR elsewhere, and a NUL, is a
/// byte like any other.
#[derive(Clone, Debug)]
pub struct LineSplitter {
    max_line: usize,
    /// The beginning of an unfinished line, at most `max_line` bytes.
    buffer: Vec<u8>,
    dropped: u64,
    /// A CR was seen, and whether it belongs to the line's end is not known yet.
    held_cr: bool,
}

impl LineSplitter {
    /// Lines longer than `max_line` bytes are cut there.
    #[must_use]
    pub fn new(max_line: usize) -> Self {
        Self { max_line, buffer: Vec::new(), dropped: 0, held_cr: false }
    }

    /// Takes the next piece, and calls `on_line` for each line that is complete by it.
    pub fn push(&mut self, bytes: &[u8], mut on_line: impl FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some((line, after)) = memchr::memchr(b'\n', rest)
            .and_then(|end| rest.split_at_checked(end))
            .and_then(|(line, end)| Some((line, end.split_first()?.1)))
        {
            rest = after;
            if self.is_fresh() {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let (kept, dropped) = line.split_at_checked(self.max_line).unwrap_or((line, &[]));
                on_line(Line { text: String::from_utf8_lossy(kept), dropped: count(dropped) });
            } else {
                self.append(line);
                self.held_cr = false;
                self.emit(&mut on_line);
            }
        }
        self.append(rest);
    }

    /// Returns the bytes so far of an unfinished line that is already longer than the longest that is kept: its end may never come.
    #[must_use]
    pub fn overlong(&self) -> Option<u64> {
        (self.dropped > 0).then(|| count(&self.buffer).saturating_add(self.dropped))
    }

    /// Takes the end of the stream, and calls `on_line` for a last line without an end. The splitter
    /// can be used again afterwards.
    pub fn finish(&mut self, mut on_line: impl FnMut(Line<'_>)) {
        if self.is_fresh() {
            return;
        }
        if std::mem::take(&mut self.held_cr) {
            self.store(b"\r");
        }
        self.emit(&mut on_line);
    }

    /// Whether nothing of the next line has come yet.
    fn is_fresh(&self) -> bool {
        self.buffer.is_empty() && self.dropped == 0 && !self.held_cr
    }

    fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.held_cr) {
            self.store(b"\r");
        }
        let body = bytes.strip_suffix(b"\r");
        self.held_cr = body.is_some();
        self.store(body.unwrap_or(bytes));
    }

    fn store(&mut self, bytes: &[u8]) {
        let room = self.max_line.saturating_sub(self.buffer.len());
        let (kept, dropped) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.buffer.extend_from_slice(kept);
        self.dropped = self.dropped.saturating_add(count(dropped));
    }

    fn emit(&mut self, on_line: &mut impl FnMut(Line<'_>)) {
        let text = String::from_utf8_lossy(&self.buffer);
        on_line(Line { text, dropped: std::mem::take(&mut self.dropped) });
        self.buffer.clear();
        self.buffer.shrink_to(KEEP);
    }
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
