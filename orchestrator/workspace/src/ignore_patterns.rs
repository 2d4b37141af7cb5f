//! Patterns in git's language, compiled by the `ignore` crate.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The most that a file with ignore rules may hold, in bytes.
pub(crate) const RULE_LIMIT: usize = 512 * 1024;

/// Whether one of these patterns matches a path that is no folder.
pub(crate) fn matches_file(patterns: &Gitignore, path: &Path) -> bool {
    !patterns.matched(path, false).is_none()
}

/// Compiles rules. A line that is no pattern, or not UTF-8, hides nothing.
pub(crate) fn compile_patterns(text: &[u8]) -> Gitignore {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut builder = GitignoreBuilder::new("");
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Ok(line) = std::str::from_utf8(line) {
            // An error speaks of this line alone, and git is silent about such lines too.
            let _ = builder.add_line(None, &literal_braces(line));
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns the line with its braces escaped: they are plain characters to git, but groups to the matcher,
/// which nested deeply enough would also overflow its stack.
fn literal_braces(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut escaped = false;
    for letter in line.chars() {
        if matches!(letter, '{' | '}') && !escaped {
            text.push('\\');
        }
        escaped = letter == '\\' && !escaped;
        text.push(letter);
    }
    text
}
