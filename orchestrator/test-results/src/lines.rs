//! The lines of an output as a terminal would show them in the end.

use ralph_orchestrator_text::strip_escape_sequences;

/// The longest piece of a line that is kept in memory.
const MAX_PIECE: usize = 16 * 1024;

/// A piece of an output, as it was completed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A whole line, or the first part of one that is longer than is kept.
    Line(String),
    /// What is no line by itself: the further parts of a long one, and what a carriage return overwrites.
    Other(String),
}

/// Splits bytes into lines, without escape sequences, invalid UTF-8 and what carriage returns overwrite.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    buffer: Vec<u8>,
    /// Whether the line's first part was already given away.
    is_continued: bool,
    /// Whether the next byte decides if a carriage return ends the line or overwrites it.
    has_return: bool,
}

impl LineSplitter {
    /// Takes bytes, and gives each piece that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut give: impl FnMut(Piece)) {
        while let Some(first) = bytes.first() {
            if self.has_return && !matches!(first, b'\n' | b'\r') {
                self.flush(&mut give, Piece::Other);
                self.is_continued = false;
            }
            self.has_return = false;
            let room = MAX_PIECE.saturating_sub(self.buffer.len()).max(1);
            let window = bytes.get(..room).unwrap_or(bytes);
            let end = window.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (text, rest) = bytes.split_at(end.unwrap_or(window.len()));
            self.buffer.extend_from_slice(text);
            bytes = rest;
            if let Some((ending, rest)) = rest.split_first().filter(|_| end.is_some()) {
                bytes = rest;
                match ending {
                    b'\r' => self.has_return = true,
                    _ => self.end_line(&mut give),
                }
            } else if self.buffer.len() >= MAX_PIECE {
                self.give_part(&mut give);
            }
        }
    }

    /// Gives what has no line end.
    pub(crate) fn finish(&mut self, mut give: impl FnMut(Piece)) {
        if !self.buffer.is_empty() {
            self.end_line(&mut give);
        }
    }

    /// Forgets the line whose further bytes are missing.
    pub(crate) fn drop_line(&mut self) {
        *self = Self::default();
    }

    fn end_line(&mut self, give: &mut impl FnMut(Piece)) {
        let kind = if self.is_continued { Piece::Other } else { Piece::Line };
        self.flush(give, kind);
        self.is_continued = false;
    }

    /// Gives the first part of a long line, cut between two characters.
    fn give_part(&mut self, give: &mut impl FnMut(Piece)) {
        let is_inner = |byte: &u8| (0x80..0xC0).contains(byte);
        let inner = self.buffer.iter().rev().take(3).take_while(|byte| is_inner(byte)).count();
        let has_lead = self.buffer.iter().rev().nth(inner).is_some_and(|byte| *byte >= 0xC0);
        let kept = if has_lead { inner + 1 } else { 0 };
        let tail = self.buffer.split_off(self.buffer.len().saturating_sub(kept));
        self.end_line(give);
        self.is_continued = true;
        self.buffer = tail;
    }

    fn flush(&mut self, give: &mut impl FnMut(Piece), kind: fn(String) -> Piece) {
        let text = String::from_utf8_lossy(&self.buffer);
        give(kind(strip_escape_sequences(&text).into_owned()));
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut splitter = LineSplitter::default();
        for chunk in chunks {
            splitter.push(chunk, |piece| pieces.push(piece));
        }
        splitter.finish(|piece| pieces.push(piece));
        pieces
    }

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let lines = split(chunks).into_iter().filter_map(|piece| match piece {
            Piece::Line(line) => Some(line),
            Piece::Other(_) => None,
        });
        lines.collect()
    }

    #[test]
    fn gives_the_lines_that_a_terminal_shows() {
        for (chunks, expected) in [
            (&[&b"a\nb"[..]][..], &["a", "b"][..]),
            (&[b"a\r\nb\r", b"\nc\r\r\n"], &["a", "b", "c"]),
            (&[b"1/2\r", b"2/2\rdone\n"], &["done"]),
            (&[b"\x1b[3", b"2mok\x1b[0m\n"], &["ok"]),
            (&[b"\xff\xc3", b"\xa4\n\n"], &["\u{fffd}ä", ""]),
            (&[b"", b"\r"], &[]),
        ] {
            assert_eq!(lines(chunks), expected, "{chunks:?}");
        }
    }

    #[test]
    fn a_long_line_is_given_in_parts_between_characters() {
        let text = format!("a{}\nb", "é".repeat(MAX_PIECE));
        let pieces = split(&[text.as_bytes()]);
        assert!(matches!(&pieces[0], Piece::Line(line) if line.len() < MAX_PIECE + 1));
        assert!(matches!(&pieces[1], Piece::Other(_)));
        assert_eq!(pieces.last(), Some(&Piece::Line("b".to_owned())));
        let all = pieces.into_iter().map(|piece| match piece {
            Piece::Line(text) | Piece::Other(text) => text,
        });
        assert_eq!(all.collect::<String>(), text.replace('\n', ""));
    }
}
