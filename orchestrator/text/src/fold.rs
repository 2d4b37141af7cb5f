//! Measures text in columns, and fits and folds it to a width.

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthChar as _;

/// A space at which no line is folded.
pub const NO_BREAK: char = '\u{a0}';

/// How many columns a text takes; its colours take none.
pub fn columns(text: &str) -> usize {
    strip_str(text).flat_map(str::chars).map(|c| c.width().unwrap_or_default()).sum()
}

/// The beginning of a text that takes no more than so many columns, with `…` for what is left out.
pub fn fit(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or_default();
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

/// The end of a text that takes no more than so many columns, after `…` for what is left out.
pub fn fit_end(text: &str, most: usize) -> String {
    let mut start = text.len();
    let mut used = columns(text);
    if used <= most {
        return text.to_owned();
    }
    used = usize::from(most > 0);
    for (index, c) in text.char_indices().rev() {
        used += c.width().unwrap_or_default();
        if used > most {
            break;
        }
        start = index;
    }
    let sign = if most > 0 { "…" } else { "" };
    format!("{sign}{}", text.get(start..).unwrap_or_default())
}

/// The text in lines of at most `width` columns, all but the first after `indent` spaces. White space at
/// the beginning stays. A word that does not fit after the indent has a line of its own, further to the
/// left, and one that fits no line stays where it is. A number stays with its unit, figures such as `+3 -1` with what they are of.
pub fn fold(text: &str, indent: usize, width: usize) -> Vec<String> {
    if columns(text) <= width {
        return vec![text.replace(NO_BREAK, " ")];
    }
    let words = text.trim_start_matches(' ');
    let begin = text.len() - words.len();
    let mut line = text.get(..begin).unwrap_or_default().to_owned();
    let (mut used, mut is_empty) = (columns(&line), true);
    let mut lines = Vec::new();
    for word in pieces(words) {
        let more = columns(&word);
        if !is_empty && used + 1 + more > width && more <= width {
            lines.push(line.trim_end().replace(NO_BREAK, " "));
            used = indent.min(width.saturating_sub(more));
            (line, is_empty) = (" ".repeat(used), true);
            if word.is_empty() {
                continue;
            }
        }
        if !is_empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += more;
        is_empty = false;
    }
    lines.push(line.replace(NO_BREAK, " "));
    lines
}

/// What is never separated. Two spaces between parts of a line have nothing between them.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match pieces.last_mut() {
            Some(last) if !last.is_empty() && sticks(word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

/// Whether a word says nothing without the one before it.
fn sticks(word: &str) -> bool {
    let unit = word.trim_end_matches([',', ')', ':', ';']);
    let is_figure = word
        .strip_prefix(['+', '-'])
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_figure || ["s", "min", "h", "%", "(new)", "(removed)"].contains(&unit)
}

/// The text in lines of at most `width` characters, each after `indent`. A word that is longer has a
/// line of its own.
pub fn wrap(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + more <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + more;
            }
            _ => {
                lines.push(format!("{indent}{word}"));
                length = indent.chars().count() + more;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_keep_to_their_width() {
        let text = "one two  three four five supercalifragilistic six";
        assert_eq!(
            wrap(text, "  ", 12),
            ["  one two", "  three four", "  five", "  supercalifragilistic", "  six"]
        );
        assert!(wrap(" ", "  ", 12).is_empty());
    }

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

    #[test]
    fn long_lines_go_on_below_their_text() {
        assert_eq!(fold("  one two", 4, 20), ["  one two"]);
        assert_eq!(fold("  one  two three four", 4, 12), ["  one  two", "    three", "    four"]);
        assert_eq!(fold("a /a/very/long/path b", 2, 8), ["a /a/very/long/path", "  b"]);
        assert_eq!(fold("at /a/path b", 4, 8), ["at", " /a/path", "    b"]);
        assert_eq!(fold("\x1b[1mone two\x1b[0m", 0, 7), ["\x1b[1mone two\x1b[0m"]);
        assert_eq!(fold("\x1b[1mone two\x1b[0m", 0, 6), ["\x1b[1mone", "two\x1b[0m"]);
        assert_eq!(
            fold("  took 3 min 12 s, of a.rs +3 -1", 4, 16),
            ["  took 3 min", "    12 s, of", "    a.rs +3 -1"]
        );
        assert_eq!(fold("a\u{a0}b c", 0, 3), ["a b", "c"]);
        for width in 1..30 {
            for line in fold("  some words  and 日本語 to fold", 2, width) {
                let fits_none = line.split(' ').any(|word| 2 + columns(word) > width);
                assert!(columns(&line) <= width || fits_none, "{line:?} at {width}");
            }
        }
    }
}
