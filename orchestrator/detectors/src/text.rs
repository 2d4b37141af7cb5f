//! Lines and their normalisation.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;

const ESC: char = '\u{1b}';

/// Iterates over the lines of a text: the range without, and the end with the line ending. A line ends
/// with LF, CR LF or a lone CR, as in Markdown.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
    let bytes = text.as_bytes();
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
        let ending = match rest.get(length..) {
            Some([b'\r', b'\n', ..]) => 2,
            Some([_, ..]) => 1,
            _ => 0,
        };
        let line = start..start + length;
        start = line.end + ending;
        Some((line, start))
    })
}

/// Removes terminal escape sequences.
pub(crate) fn strip_ansi(text: &str) -> Cow<'_, str> {
    if !text.contains([ESC, '\u{9b}']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let opener = match c {
            '\u{9b}' => Some('['),
            ESC => chars.next_if(|next| !matches!(next, '\n' | '\r')),
            _ => {
                out.push(c);
                continue;
            }
        };
        match opener {
            // Parameters, then one final character.
            Some('[') => {
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            // A string up to BEL or ESC \, but never past the end of its line: a stray opener would hide the
            // rest of the text.
            Some(']' | 'P' | '_' | '^' | 'X') => {
                while let Some(c) = chars.next_if(|c| !matches!(c, '\n' | '\r')) {
                    if c == '\u{7}' || (c == ESC && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // Intermediates, then one final character.
            Some(' '..='/') => {
                while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
                chars.next_if(|c| matches!(c, '0'..='~'));
            }
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// Whether a character is invisible and ignored in a marker.
pub(crate) const fn is_zero_width(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{2069}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
    )
}

/// Normalises a line to what a reader sees: without escape sequences and zero-width characters, in NFKC,
/// with Markdown escapes resolved, white space collapsed and trimmed.
pub(crate) fn normalise(line: &str) -> String {
    let mut visible = strip_ansi(line);
    if !visible.is_ascii() {
        visible = visible.chars().filter(|c| !is_zero_width(*c)).nfkc().collect::<String>().into();
    }
    let mut out = String::with_capacity(visible.len());
    let mut chars = visible.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            if !out.is_empty() && !out.ends_with(' ') {
                out.push(' ');
            }
        } else if !(c == '\\' && chars.peek().is_some_and(char::is_ascii_punctuation)) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Truncates a text after `max` characters, with an ellipsis.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Vec<&str> {
        lines(text).map(|(line, _)| text.get(line).unwrap()).collect()
    }

    #[test]
    fn all_three_line_endings() {
        assert_eq!(split("a\nb\r\nc\rd"), ["a", "b", "c", "d"]);
        assert_eq!(split("a\n\r\n"), ["a", ""]);
        assert_eq!(split(""), Vec::<&str>::new());
    }

    #[test]
    fn escape_sequences_go() {
        let table = [
            ("\u{1b}[1;32mgreen\u{1b}[0m", "green"),
            ("\u{9b}1mbold\u{9b}m", "bold"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never closed\nnext", "\nnext"),
            ("\u{1b}(Btext\u{1b}Mup\u{1b}", "textup"),
            ("\u{1b}[12", ""),
            ("\u{1b}\n", "\n"),
        ];
        for (raw, plain) in table {
            assert_eq!(strip_ansi(raw), plain, "{raw:?}");
        }
    }

    #[test]
    fn a_normalised_line_is_what_one_sees() {
        let table = [
            ("\u{feff} a\u{a0}\u{a0}b\t", "a b"),
            ("ＴＡＳＫ＿ＣＯＭＰＬＥＴＥ！", "TASK_COMPLETE!"),
            ("T\u{200b}ASK\u{ad}", "TASK"),
            ("TASK\\_COMPLETE", "TASK_COMPLETE"),
            ("a\\b \\", "a\\b \\"),
            ("\\\\_", "_"),
        ];
        for (raw, seen) in table {
            assert_eq!(normalise(raw), seen, "{raw:?}");
        }
    }

    #[test]
    fn cutting_counts_characters() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äöü…");
        assert_eq!(truncate("a b c", 2), "a…");
    }

    proptest! {
        #[test]
        fn lines_cover_the_text(text in "\\PC*|[a\r\n]*") {
            let mut at = 0;
            for (line, end) in lines(&text) {
                prop_assert_eq!(line.start, at);
                prop_assert!(line.end <= end && end > at);
                at = end;
            }
            prop_assert_eq!(at, text.len());
        }

        #[test]
        fn stripping_takes_no_line_ending(text in "[a\r\n\u{1b}\u{9b}\\[\\]0m;]*") {
            let endings = |text: &str| text.matches(['\r', '\n']).collect::<String>();
            prop_assert_eq!(endings(&strip_ansi(&text)), endings(&text));
        }
    }
}
