//! Keys out of the bytes that a terminal sends.

use crate::key::Key;

/// The longest text that is pasted at once, in bytes.
const LONGEST_PASTE: usize = 64 * 1024;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Takes bytes as they come, in pieces of any length.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyParser {
    bytes: Vec<u8>,
    is_pasting: bool,
}

/// What the first bytes are.
enum First {
    /// So many of them are this key, or nothing that is known.
    Bytes(usize, Option<Key>),
    /// A text that is pasted begins after so many.
    PasteStart(usize),
    /// It depends on what follows.
    Unclear,
}

impl KeyParser {
    /// Takes bytes, and returns the keys that they complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        self.parse(false)
    }

    /// Whether it depends on the next bytes what the last ones were.
    pub(crate) const fn is_waiting(&self) -> bool {
        !self.bytes.is_empty() && !self.is_pasting
    }

    /// Returns the keys that the last bytes are if nothing follows them.
    pub(crate) fn finish(&mut self) -> Vec<Key> {
        self.parse(true)
    }

    fn parse(&mut self, is_end: bool) -> Vec<Key> {
        let mut keys = Vec::new();
        while !self.bytes.is_empty() {
            if self.is_pasting {
                let Some(text) = self.take_paste() else { break };
                keys.push(Key::Paste(text));
                continue;
            }
            match first(&self.bytes, is_end) {
                First::Bytes(count, key) => {
                    self.drop_first(count);
                    keys.extend(key);
                }
                First::PasteStart(count) => {
                    self.drop_first(count);
                    self.is_pasting = true;
                }
                First::Unclear => break,
            }
        }
        keys
    }

    fn drop_first(&mut self, count: usize) {
        drop(self.bytes.drain(..count.min(self.bytes.len())));
    }

    /// Takes the text that is pasted once all of it is there.
    fn take_paste(&mut self) -> Option<String> {
        let end = self.bytes.windows(PASTE_END.len()).position(|part| part == PASTE_END);
        let (text, skipped) = match end {
            Some(end) => (end, PASTE_END.len()),
            None if self.bytes.len() > LONGEST_PASTE => (LONGEST_PASTE, 0),
            None => return None,
        };
        let text: Vec<u8> = self.bytes.drain(..text).collect();
        self.drop_first(skipped);
        self.is_pasting = skipped == 0;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

fn first(bytes: &[u8], is_end: bool) -> First {
    match bytes {
        [b'\x1b', rest @ ..] => sequence(rest, is_end),
        [byte, ..] if byte.is_ascii_control() => First::Bytes(1, control(*byte)),
        _ => character(bytes, is_end),
    }
}

const fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0x01 => Key::Home,
        0x03 => Key::Interrupt,
        0x05 => Key::End,
        0x0c => Key::Redraw,
        0x15 => Key::ClearLine,
        _ => return None,
    })
}

fn character(bytes: &[u8], is_end: bool) -> First {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let Some(own) = bytes.get(..length) else {
        return if is_end { First::Bytes(1, None) } else { First::Unclear };
    };
    match std::str::from_utf8(own).ok().and_then(|text| text.chars().next()) {
        Some(c) => First::Bytes(length, Some(Key::Char(c))),
        None => First::Bytes(1, None),
    }
}

/// What follows an escape character.
fn sequence(rest: &[u8], is_end: bool) -> First {
    match rest {
        [] if !is_end => First::Unclear,
        [b'O', letter, ..] => First::Bytes(3, named(*letter)),
        [b'[', tail @ ..] => {
            let Some(end) = tail.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                let count = if is_end { 2 + tail.len() } else { 0 };
                return if is_end { First::Bytes(count, None) } else { First::Unclear };
            };
            let numbers = tail.get(..end).unwrap_or_default();
            let number = numbers.split(|byte| *byte == b';').next().unwrap_or_default();
            let key = match (tail.get(end), number) {
                (Some(b'~'), b"200") => return First::PasteStart(3 + end),
                (Some(b'~'), number) => numbered(number),
                (Some(letter), _) => named(*letter),
                (None, _) => None,
            };
            First::Bytes(3 + end, key)
        }
        [b'O'] if !is_end => First::Unclear,
        // The key itself; what follows is another one.
        _ => First::Bytes(1, Some(Key::Escape)),
    }
}

const fn named(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        b'M' => Key::Enter,
        b'Z' => Key::BackTab,
        _ => return None,
    })
}

const fn numbered(number: &[u8]) -> Option<Key> {
    Some(match number {
        b"1" | b"7" => Key::Home,
        b"3" => Key::Delete,
        b"4" | b"8" => Key::End,
        b"5" => Key::PageUp,
        b"6" => Key::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<Key> {
        let mut parser = KeyParser::default();
        let mut keys = parser.take(bytes);
        keys.extend(parser.finish());
        keys
    }

    #[test]
    fn terminals_name_their_keys_in_several_ways() {
        for (bytes, key) in [
            ("\x1b[A", Key::Up),
            ("\x1bOB", Key::Down),
            ("\x1b[1;5C", Key::Right),
            ("\x1b[H", Key::Home),
            ("\x1b[7~", Key::Home),
            ("\x1b[4~", Key::End),
            ("\x1bOF", Key::End),
            ("\x1b[3~", Key::Delete),
            ("\x1b[5~", Key::PageUp),
            ("\x1b[6;2~", Key::PageDown),
            ("\x1b[Z", Key::BackTab),
            ("\x1b", Key::Escape),
            ("\r", Key::Enter),
            ("\x7f", Key::Backspace),
            ("\x03", Key::Interrupt),
            ("\x15", Key::ClearLine),
            ("é", Key::Char('é')),
            ("日", Key::Char('日')),
            ("🦀", Key::Char('🦀')),
        ] {
            assert_eq!(all(bytes.as_bytes()), [key], "{bytes:?}");
        }
        for unknown in ["\x1b[15~", "\x1b[<0;1;1M\x1b[200", "\x1bOP", "\x02"] {
            assert!(!all(unknown.as_bytes()).contains(&Key::Escape), "{unknown:?}");
        }
        assert_eq!(all(b"\xff\xc3a"), [Key::Char('a')]);
    }

    #[test]
    fn an_escape_before_other_keys_is_one() {
        assert_eq!(all(b"\x1b\x1b[Zq"), [Key::Escape, Key::BackTab, Key::Char('q')]);
        assert_eq!(all(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        let mut parser = KeyParser::default();
        assert!(parser.take(b"\x1b").is_empty() && parser.is_waiting());
        assert_eq!(parser.finish(), [Key::Escape]);
        assert!(!parser.is_waiting());
    }

    #[test]
    fn what_is_pasted_is_one_text() {
        let mut parser = KeyParser::default();
        assert!(parser.take(b"\x1b[200~one\ntwo").is_empty());
        // It may take its time.
        assert!(!parser.is_waiting() && parser.finish().is_empty());
        let pasted = Key::Paste("one\ntwo \x1b[A".to_owned());
        assert_eq!(parser.take(b" \x1b[A\x1b[201~x"), [pasted, Key::Char('x')]);
        let long = [b"\x1b[200~".as_slice(), &vec![b'a'; 2 * LONGEST_PASTE]].concat();
        assert!(
            all(&long)
                .iter()
                .all(|key| matches!(key, Key::Paste(text) if text.len() == LONGEST_PASTE))
        );
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            bytes in proptest::collection::vec(prop_oneof![
                any::<u8>(),
                proptest::sample::select(b"\x1b[O200~1;ABZ\xe6".to_vec()),
            ], 0..60),
            at in 0..60_usize,
        ) {
            let (one, other) = bytes.split_at(at.min(bytes.len()));
            let mut parser = KeyParser::default();
            let mut keys = parser.take(one);
            keys.extend(parser.take(other));
            keys.extend(parser.finish());
            prop_assert_eq!(keys, all(&bytes));
        }
    }
}
