//! Texts as secrets are looked for in them: without line ends, indentation and escapes.
//!
//! JSON (nested, too), percent encoding, `\x` and a line that was wrapped all become the same bytes.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr3;

/// Pieces of a secret that are further apart than this do not belong together.
pub(super) const WIDEST_GAP: usize = 256;
/// Stands for a wider gap. In no text that is UTF-8.
const WALL: u8 = 0xFF;
/// No escape is longer, from its last backslash on.
const LONGEST_ESCAPE: usize = 12;

/// A text in canonical form, and where each of its bytes stood.
pub(super) struct Canonical<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// None if it is the text itself.
    pieces: Vec<Piece>,
}

/// Some bytes in a row.
struct Piece {
    /// Where they are in the canonical form.
    at: usize,
    /// Where they come from.
    source: Range<usize>,
    /// They are an escape, of which one byte is as good as all.
    escape: bool,
}

/// Whether the canonical form of a text is another than the text.
pub(super) fn has_escapes(text: &str) -> bool {
    memchr3(b'\n', b'\\', b'%', text.as_bytes()).is_some()
}

/// A text in canonical form, whence ever its bytes come.
pub(super) fn bytes(text: &str) -> Cow<'_, [u8]> {
    if has_escapes(text) { Reader::new(text, false).read().bytes } else { text.as_bytes().into() }
}

impl<'a> Canonical<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        if has_escapes(text) { Reader::new(text, true).read() } else { Self::verbatim(text) }
    }

    /// The text itself.
    pub(super) const fn verbatim(text: &'a str) -> Self {
        Self { bytes: Cow::Borrowed(text.as_bytes()), pieces: Vec::new() }
    }

    /// Whether it is the text itself.
    pub(super) const fn is_verbatim(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Where a part that is not empty comes from.
    pub(super) fn source(&self, part: &Range<usize>) -> Range<usize> {
        if self.is_verbatim() {
            return part.clone();
        }
        let first = self.piece(part.start);
        let last_byte = part.end.saturating_sub(1);
        let last = self.piece(last_byte);
        let start = first.map_or(0, |piece| piece.begin(part.start));
        start..last.map_or(0, |piece| piece.end(last_byte))
    }

    fn piece(&self, byte: usize) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.at <= byte);
        self.pieces.get(after.checked_sub(1)?)
    }
}

impl Piece {
    const fn begin(&self, byte: usize) -> usize {
        if self.escape { self.source.start } else { self.source.start + (byte - self.at) }
    }

    const fn end(&self, byte: usize) -> usize {
        if self.escape { self.source.end } else { self.source.start + (byte - self.at) + 1 }
    }
}

/// What stands at a byte that is special.
enum Unit {
    /// Nothing special.
    Plain,
    /// The end of a line, or white space, up to here.
    Break(usize),
    /// Something that says nothing, up to here.
    Nothing(usize),
    /// An escape of this character, up to here.
    Char(char, usize),
    /// An escape of this byte, up to here.
    Byte(u8, usize),
}

struct Reader<'a> {
    text: &'a [u8],
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
    /// Whether anybody wants to know the pieces.
    places: bool,
    /// Where the gap began that nothing has ended yet.
    gap: Option<usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, places: bool) -> Self {
        let bytes = Vec::with_capacity(text.len());
        Self { text: text.as_bytes(), bytes, pieces: Vec::new(), places, gap: None }
    }

    fn read(mut self) -> Canonical<'a> {
        // What lies between is copied as it is.
        let (mut copied, mut at) = (0, 0);
        while let Some(special) = find(self.text, at) {
            let unit = unit(self.text, special);
            at = match unit {
                Unit::Plain => {
                    at = special + 1;
                    continue;
                }
                Unit::Break(end) => {
                    let line = self.text.get(copied..special).unwrap_or_default();
                    let line = line.trim_ascii_end().len();
                    self.copy(copied, copied + line);
                    self.gap(copied + line, end)
                }
                Unit::Nothing(end) => {
                    self.copy(copied, special);
                    end
                }
                Unit::Char(character, end) => {
                    self.copy(copied, special);
                    self.escape(character.encode_utf8(&mut [0; 4]).as_bytes(), special..end);
                    end
                }
                Unit::Byte(byte, end) => {
                    self.copy(copied, special);
                    self.escape(&[byte], special..end);
                    end
                }
            };
            copied = at;
        }
        self.copy(copied, self.text.len());
        if self.places && self.pieces.is_empty() {
            // Nothing but gaps: there is nothing to be found.
            self.escape(&[WALL], 0..self.text.len());
        }
        Canonical { bytes: Cow::Owned(self.bytes), pieces: self.pieces }
    }

    fn copy(&mut self, start: usize, end: usize) {
        let Some(bytes) = self.text.get(start..end).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        self.gap = None;
        self.piece(start..end, false);
        self.bytes.extend_from_slice(bytes);
    }

    fn escape(&mut self, bytes: &[u8], source: Range<usize>) {
        self.gap = None;
        self.piece(source, true);
        self.bytes.extend_from_slice(bytes);
    }

    fn piece(&mut self, source: Range<usize>, escape: bool) {
        if self.places {
            self.pieces.push(Piece { at: self.bytes.len(), source, escape });
        }
    }

    /// Passes over a line's end and all white space after it.
    fn gap(&mut self, start: usize, end: usize) -> usize {
        let rest = self.text.get(end..).unwrap_or_default();
        let end = self.text.len() - rest.trim_ascii_start().len();
        let start = *self.gap.get_or_insert(start);
        if end - start > WIDEST_GAP {
            self.escape(&[WALL], start..end);
        }
        end
    }
}

fn find(text: &[u8], at: usize) -> Option<usize> {
    Some(at + memchr3(b'\n', b'\\', b'%', text.get(at..)?)?)
}

/// What stands at this line end, backslash or per cent sign.
fn unit(text: &[u8], at: usize) -> Unit {
    match text.get(at) {
        Some(b'\n') => Unit::Break(at + 1),
        Some(b'%') => hex(text, at + 1, 2).map_or(Unit::Plain, |byte| of_byte(byte, at + 3)),
        _ => {
            // However often it was escaped.
            let rest = text.get(at..).unwrap_or_default();
            let run = rest.iter().take_while(|byte| **byte == b'\\').count();
            after_backslash(text, at + run)
        }
    }
}

fn after_backslash(text: &[u8], at: usize) -> Unit {
    match text.get(at) {
        Some(b'n' | b'r' | b't' | b'\n' | b'\r') => Unit::Break(at + 1),
        Some(b'u') => unicode(text, at + 1).unwrap_or(Unit::Byte(b'u', at + 1)),
        Some(b'x') => {
            hex(text, at + 1, 2).map_or(Unit::Byte(b'x', at + 1), |byte| of_byte(byte, at + 3))
        }
        Some(byte) if byte.is_ascii_graphic() && *byte != b'%' => Unit::Byte(*byte, at + 1),
        _ => Unit::Nothing(at),
    }
}

/// The character that these hexadecimal digits mean, with those of a second half if it has one.
fn unicode(text: &[u8], at: usize) -> Option<Unit> {
    let first = hex(text, at, 4)?;
    if let Some(character) = char::from_u32(first) {
        return Some(of_char(character, at + 4));
    }
    let rest = text.get(at + 4..)?;
    let run = rest.iter().take_while(|byte| **byte == b'\\').count();
    let digits = at + 4 + run + 1;
    let second = hex(text, digits, 4).filter(|_| run > 0 && rest.get(run) == Some(&b'u'))?;
    let both = char::decode_utf16([first, second].map(|half| u16::try_from(half).unwrap_or(0)));
    Some(of_char(both.flatten().next()?, digits + 4))
}

fn of_byte(byte: u32, end: usize) -> Unit {
    match u8::try_from(byte) {
        Ok(byte) if byte.is_ascii() => of_char(char::from(byte), end),
        Ok(byte) => Unit::Byte(byte, end),
        Err(_) => Unit::Nothing(end),
    }
}

/// What is left out when it stands for itself is left out when it is escaped.
const fn of_char(character: char, end: usize) -> Unit {
    match character {
        '\n' | '\r' | '\t' => Unit::Break(end),
        '\\' => Unit::Nothing(end),
        character => Unit::Char(character, end),
    }
}

fn hex(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    let digits = text.get(at..at + digits)?;
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

/// How much of the beginning is complete: an escape of which the end may still come is not.
pub(super) fn complete(text: &str) -> usize {
    let bytes = text.as_bytes();
    let from = bytes.len().saturating_sub(LONGEST_ESCAPE);
    let open = |at: &usize| {
        let left = bytes.len() - at;
        match bytes.get(*at) {
            Some(b'%') => left < 3,
            // The last of them, if there are several.
            Some(b'\\') => match bytes.get(at + 1) {
                None => true,
                Some(b'x') => left < 4,
                Some(b'u') => left < LONGEST_ESCAPE,
                Some(_) => false,
            },
            _ => false,
        }
    };
    let Some(open) = (from..bytes.len()).find(open) else { return bytes.len() };
    let run = bytes.get(..open).unwrap_or_default();
    open - run.iter().rev().take_while(|byte| **byte == b'\\').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        String::from_utf8_lossy(&Canonical::new(text).bytes).into_owned()
    }

    #[test]
    fn line_ends_indentation_and_escapes_are_taken_out() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("a \r\n\t b", "ab"),
            (r"a\n  b\r\nc", "abc"),
            (r#"say \"x\" and \\\"y\\\""#, r#"say "x" and "y""#),
            ("a%2Fb%2fc%0Ad 100% %zz", "a/b/cd 100% %zz"),
            (r"\u00e9\u000a\ud83d\ude00\u12", "é😀u12"),
            (r"\x41\x4", "Ax4"),
            ("a\\\n  b", "ab"),
            ("ends \\", "ends "),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
        let far = format!("a\n{}b", " ".repeat(WIDEST_GAP));
        assert_eq!(Canonical::new(&far).bytes.as_ref(), [b'a', WALL, b'b']);
        let far = format!("a{}b", r"\n".repeat(WIDEST_GAP));
        assert!(Canonical::new(&far).bytes.contains(&WALL));
    }

    #[test]
    fn escapes_that_may_go_on_are_not_complete() {
        for (text, left) in [
            ("a%4", 2),
            ("a%41", 0),
            ("a\\", 1),
            ("a\\\\\\", 3),
            ("a\\n", 0),
            ("a\\u00e", 5),
            ("a\\x4", 3),
            ("a\\x41", 0),
            ("a\\ud83d\\ude0", 11),
            ("", 0),
            ("é%", 1),
        ] {
            assert_eq!(text.len() - complete(text), left, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_comes_from_where_it_stood(text in r"(a|é|b|\n| |\\|n|u|00e9|%|41|x|\r|\t){0,40}") {
            let canonical = Canonical::new(&text);
            let mut end = 0;
            for byte in 0..canonical.bytes.len() {
                let source = canonical.source(&(byte..byte + 1));
                prop_assert!(source.start < source.end && source.end <= text.len());
                prop_assert!(source.end >= end);
                end = source.end;
            }
            let whole = canonical.source(&(0..canonical.bytes.len().max(1)));
            prop_assert!(canonical.bytes.is_empty() || whole.end == end);
            prop_assert!(text.is_char_boundary(complete(&text)));
        }
    }
}
