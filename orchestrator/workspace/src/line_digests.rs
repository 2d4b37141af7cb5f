//! The lines of a text as digests: enough to say how many were added and removed, in a fraction of its size.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

/// A file with more bytes is not compared line by line.
pub(super) const LARGEST_TEXT: u64 = 1024 * 1024;

/// Digests of the lines of a text, in their order.
pub(super) type LineDigests = Arc<[u32]>;

/// Takes the bytes of a file as they are read.
#[derive(Debug, Default)]
pub(super) struct LineCounter {
    lines: Vec<u32>,
    /// The line that has not ended yet, if there is one.
    open: Option<DefaultHasher>,
    is_binary: bool,
}

impl LineCounter {
    /// Goes on with the next bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        if self.is_binary || memchr::memchr(0, bytes).is_some() {
            self.is_binary = true;
            return;
        }
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes);
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            let mut open = self.open.take().unwrap_or_default();
            open.write(line);
            match end {
                Some(_) => self.lines.push(digest(&open)),
                None => self.open = Some(open),
            }
            bytes = rest;
        }
    }

    /// Returns the digests, if all of it is text.
    pub(super) fn finish(mut self) -> Option<LineDigests> {
        self.lines.extend(self.open.as_ref().map(digest));
        (!self.is_binary).then(|| self.lines.into())
    }
}

/// Its lower half: two lines that share it by chance count as the same.
#[allow(clippy::cast_possible_truncation)]
fn digest(line: &DefaultHasher) -> u32 {
    line.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Option<LineDigests> {
        let mut counter = LineCounter::default();
        for piece in pieces {
            counter.take(piece);
        }
        counter.finish()
    }

    #[test]
    fn digests_do_not_depend_on_how_the_bytes_arrive() {
        let whole = lines(&[b"one\ntwo\nthree"]).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(lines(&[b"on", b"e\ntwo", b"\n", b"", b"three"]), Some(whole));
        assert_ne!(lines(&[b"a\n"]), lines(&[b"a"]), "the line end is a part of the line");
        assert_eq!(lines(&[]).unwrap().len(), 0);
        assert_eq!(lines(&[b"\n\n"]).unwrap().len(), 2);
    }

    #[test]
    fn binary_content_has_no_lines() {
        assert_eq!(lines(&[b"text\n", b"\0"]), None);
        assert_eq!(lines(&[b"\0", b"text\n"]), None);
    }
}
