//! Text that stays within its line and its bound.

use std::fmt::Write as _;

use jiff::Timestamp;
use ralph_orchestrator_text::plain_line;

/// The longest line of a list, in characters.
const LONGEST_LINE: usize = 400;
/// The most lines of a list.
const MOST_LINES: usize = 20;

/// Returns the last lines of a text, at most so many lines and bytes, whole characters only.
#[must_use]
pub fn last_lines(text: &str, lines: usize, bytes: usize) -> &str {
    let text = text.trim_end();
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let tail = text.get(start..).unwrap_or_default();
    let newlines = tail.rmatch_indices('\n');
    let begin = newlines.take(lines).nth(lines.saturating_sub(1)).map_or(0, |(at, _)| at + 1);
    tail.get(begin..).unwrap_or_default()
}

/// Appends a title and a list under it; `nothing` if the list is empty.
pub(crate) fn append_list(text: &mut String, title: &str, items: &[String], nothing: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{title}:");
    if items.is_empty() {
        let _ = writeln!(text, "- {nothing}");
    }
    for item in items.iter().take(MOST_LINES) {
        let _ = writeln!(text, "- {}", plain_line(item, LONGEST_LINE));
    }
    if items.len() > MOST_LINES {
        let _ = writeln!(text, "- and {} more", items.len() - MOST_LINES);
    }
}

/// Returns a time in UTC, in this form of `strftime`; the beginning of 1970 if there is no such time.
pub(crate) fn time_text(unix_s: i64, form: &str) -> String {
    let time = Timestamp::from_second(unix_s).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_bounded_in_lines_and_bytes() {
        assert_eq!(last_lines("a\nb\nc\n", 2, 100), "b\nc");
        assert_eq!(last_lines("a\nb\nc", 3, 100), "a\nb\nc");
        assert_eq!(last_lines("a\nb", 9, 100), "a\nb");
        assert_eq!(last_lines("äöü", 9, 3), "ü");
        assert_eq!(last_lines("", 2, 100), "");
        assert_eq!(last_lines("a\nb", 0, 100), "a\nb");
    }
}
