//! How many columns text takes.

use unicode_width::UnicodeWidthChar as _;

use crate::escape_sequences::strip_escape_sequences;

/// Returns how many columns a character takes.
#[must_use]
pub fn char_width(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// Returns how many columns a text takes; its colours take none.
#[must_use]
pub fn columns(text: &str) -> usize {
    strip_escape_sequences(text).chars().map(char_width).sum()
}

/// Returns the beginning of a text that takes no more than so many columns, with `…` for what is left out.
#[must_use]
pub fn fit(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += char_width(c);
        if used >= most {
            break;
        }
        kept.push(c);
    }
    if most > 0 {
        kept.push('…');
    }
    kept
}

/// Returns the end of a text that takes no more than so many columns, after `…` for what is left out.
#[must_use]
pub fn fit_end(text: &str, most: usize) -> String {
    let mut start = text.len();
    let mut used = columns(text);
    if used <= most {
        return text.to_owned();
    }
    used = usize::from(most > 0);
    for (index, c) in text.char_indices().rev() {
        used += char_width(c);
        if used > most {
            break;
        }
        start = index;
    }
    let sign = if most > 0 { "…" } else { "" };
    format!("{sign}{}", text.get(start..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns_and_not_by_characters() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(columns("日本語"), 6);
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("e\u{301}t\u{e9}", 3), "e\u{301}t\u{e9}");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(fit_end("short", 5), "short");
        assert_eq!(fit_end("longer", 5), "…nger");
        assert_eq!(fit_end("日本語", 5), "…本語");
        assert_eq!(fit_end("日本語", 4), "…語");
        assert_eq!(fit_end("abc", 0), "");
    }
}
