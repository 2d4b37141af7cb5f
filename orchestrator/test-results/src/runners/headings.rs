//! Names of tests that are listed in an indented tree.

use std::sync::LazyLock;

use regex::Regex;

/// Deeper groups are not told apart.
const MAX_DEPTH: usize = 32;
const MAX_HEADING_BYTES: usize = 256;

/// Characters at the end of a name that may be a time; lines can be long, and are searched often.
const MAX_TIME_CHARS: usize = 24;

/// Separates the groups of a name.
const SEPARATOR: &str = " > ";

/// The groups that the next test is in.
#[derive(Debug, Default)]
pub(crate) struct Headings(Vec<String>);

impl Headings {
    /// Opens a group at a depth; groups as deep or deeper end.
    pub(crate) fn open(&mut self, depth: usize, name: &str) {
        self.0.truncate(depth.min(MAX_DEPTH));
        let end = name.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_HEADING_BYTES);
        self.0.push(name.get(..end.unwrap_or(name.len())).unwrap_or_default().to_owned());
    }

    /// Returns the whole name of a test at a depth.
    pub(crate) fn name(&self, depth: usize, test: &str) -> String {
        let mut name = String::new();
        for heading in self.0.iter().take(depth) {
            name.push_str(heading);
            name.push_str(SEPARATOR);
        }
        name.push_str(test);
        name
    }

    /// Ends the group of this whole name at a depth, if it is open.
    pub(crate) fn close(&mut self, depth: usize, whole_name: &str) -> bool {
        let is_open = self.0.get(depth).is_some_and(|name| self.name(depth, name) == whole_name);
        if is_open {
            self.0.truncate(depth);
        }
        is_open
    }
}

/// Returns how far a line is indented, and its text.
pub(crate) fn split_indent(line: &str) -> (usize, &str) {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len(), text.trim_end())
}

/// Returns a name without the time that the test took, such as `(3 ms)`, `(2.5ms)` or `0.1s` at its end.
pub(crate) fn strip_time(name: &str) -> &str {
    static TIME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r" (\(\d+(\.\d+)? ?[mµ]?s\)|\d+(\.\d+)?m?s)$").ok());
    let tail = name.char_indices().rev().nth(MAX_TIME_CHARS).map_or(0, |(at, _)| at);
    let time = name.get(tail..).and_then(|end| TIME.as_ref()?.find(end));
    time.and_then(|time| name.get(..tail + time.start())).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_without_times() {
        for (line, name) in [
            ("a (3 ms)", "a"),
            ("a (2.5ms)", "a"),
            ("a b 12ms", "a b"),
            ("a (553µs)", "a"),
            ("waits 3 s", "waits 3 s"),
            ("3ms", "3ms"),
        ] {
            assert_eq!(strip_time(line), name);
        }
    }

    #[test]
    fn a_name_has_the_groups_above_it() {
        let mut headings = Headings::default();
        headings.open(0, "a");
        headings.open(1, "b");
        assert_eq!(headings.name(2, "t"), "a > b > t");
        headings.open(1, "c");
        assert_eq!(headings.name(2, "t"), "a > c > t");
        assert_eq!(headings.name(1, "t"), "a > t");
    }
}
