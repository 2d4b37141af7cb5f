//! Lines and their normalisation.

use std::ops::Range;

use ralph_orchestrator_text::{is_zero_width, strip_escape_sequences};
use unicode_normalization::UnicodeNormalization as _;

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

/// Normalises a line to what a reader sees: without escape sequences and zero-width characters, in NFKC,
/// with Markdown escapes resolved, white space collapsed and trimmed.
pub(crate) fn normalise(line: &str) -> String {
    let mut visible = strip_escape_sequences(line);
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
    }
}
