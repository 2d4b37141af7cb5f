//! Text from others in one line: harmless in a terminal, bounded in width.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the text in one line with control characters, and characters that change how others are shown, as
/// escapes such as `\u{1b}`.
pub(super) fn escape_controls(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Returns whether a character is not shown itself, but changes the order or the look of others. U+FFFE and U+FFFF
/// are no characters, and not allowed in XML.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}'
            | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Returns how many columns of a terminal the text takes.
pub(super) fn measure_width(text: &str) -> usize {
    text.width()
}

/// Returns the text in lines of at most `width` columns, broken between words where that is possible. A character
/// that is wider than the line has one of its own.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if let Some(line) = lines.last_mut()
            && measure_width(line) + 1 + measure_width(word) <= width
        {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let (head, tail) = split_at_width(rest, width);
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let (head, tail) = if head.is_empty() { rest.split_at(first) } else { (head, tail) };
            lines.push(head.to_owned());
            rest = tail;
        }
    }
    lines
}

/// Splits the text after as many characters as fit into `width` columns.
fn split_at_width(text: &str, width: usize) -> (&str, &str) {
    let mut columns = 0;
    for (at, c) in text.char_indices() {
        columns += c.width().unwrap_or(0);
        if columns > width {
            return text.split_at(at);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn makes_control_and_direction_characters_visible() {
        assert_eq!(escape_controls("a\n\t\u{1b}[31mb"), "a\\u{a}\\u{9}\\u{1b}[31mb");
        assert_eq!(escape_controls("\u{202e}abc\u{feff}"), "\\u{202e}abc\\u{feff}");
        assert_eq!(escape_controls("zażółć 日本"), "zażółć 日本");
    }

    #[test]
    fn breaks_lines_between_words_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("日本", 1), ["日", "本"]);
        assert!(wrap("", 5).is_empty());
    }

    proptest! {
        #[test]
        fn never_exceeds_the_width(text in "\\PC{0,60}", width in 2_usize..40) {
            let text = escape_controls(&text);
            let lines = wrap(&text, width);
            for line in &lines {
                prop_assert!(measure_width(line) <= width, "{line:?}");
            }
            let words: String = text.split(' ').collect();
            prop_assert_eq!(lines.concat().replace(' ', ""), words);
        }
    }
}
