//! Texts that are bounded in characters.

use crate::escape::escape;
use crate::escape_sequences::strip_escape_sequences;
use crate::invisible::is_printable;

/// Returns a text cut after so many characters, with `…` for what is left out.
#[must_use]
pub fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

/// Returns a text in one line of at most so many characters, with what must not be shown made visible.
#[must_use]
pub fn one_line(text: &str, most: usize) -> String {
    bound(escape(text).split_whitespace(), most)
}

/// Returns a text in one line of at most so many characters, without escape sequences and without what must not be shown.
#[must_use]
pub fn plain_line(text: &str, most: usize) -> String {
    let plain = strip_escape_sequences(text).replace(char::is_control, " ");
    let shown: String = plain.chars().filter(|c| c.is_whitespace() || is_printable(*c)).collect();
    bound(shown.split_whitespace(), most)
}

/// Joins words by spaces to at most so many characters.
fn bound<'a>(words: impl Iterator<Item = &'a str>, most: usize) -> String {
    let line = words.collect::<Vec<_>>().join(" ");
    if line.chars().nth(most).is_none() {
        return line;
    }
    truncate(&line, most.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äöü…");
        assert_eq!(truncate("a b c", 2), "a…");
        assert_eq!(truncate("abc", 0), "…");
    }

    #[test]
    fn a_line_is_bounded_and_escaped() {
        assert_eq!(one_line("a\nb   c", 10), "a b c");
        assert_eq!(one_line("a\u{1b}[1mb\u{e0041}", 99), "a\\u{1b}[1mb\\u{e0041}");
        assert_eq!(one_line(&"é".repeat(1000), 5), "éééé…");
    }

    #[test]
    fn a_plain_line_has_nothing_that_is_not_seen() {
        assert_eq!(
            plain_line("\u{1b}[1mno\u{1b}[0m\n\t li\u{200b}cence\r\u{9b}1mx\u{7}\u{e0041}", 99),
            "no licence x"
        );
        assert_eq!(plain_line(" a\n====\u{1b}[1m b\0c\u{2028}d", 99), "a ==== b c d");
        assert_eq!(plain_line("abcdef", 4), "abc…");
    }
}
