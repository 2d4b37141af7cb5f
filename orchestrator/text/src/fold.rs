//! Lines of a terminal: words that are longer than a line, such as paths, stay whole.

use crate::width::columns;

/// A space at which no line is folded.
pub const NO_BREAK: char = '\u{a0}';

/// Folds a text into lines of at most `width` columns, all but the first after `indent` spaces. White space at
/// the beginning stays. A word that does not fit after the indent has a line of its own, further to the
/// left, and one that fits no line stays where it is. A number stays with its unit, figures such as `+3 -1` with what they are of.
#[must_use]
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

/// Returns the pieces that are never separated. Two spaces between parts of a line have nothing between them.
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

/// Returns whether a word says nothing without the one before it.
fn sticks(word: &str) -> bool {
    let unit = word.trim_end_matches([',', ')', ':', ';']);
    let is_figure = word
        .strip_prefix(['+', '-'])
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_figure || ["s", "min", "h", "%", "(new)", "(removed)"].contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

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
