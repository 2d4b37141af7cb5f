//! Settings that are commands or blocks of a program text: CMake, Gradle, Mix.

use super::settings::Settings;

/// Which lines begin a command or block, and the brackets that it ends with.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) heads: &'static [&'static str],
    pub(super) brackets: (char, char),
}

/// Reads each block by its head, with all blocks of one head together.
pub(super) fn read(text: &str, heads: Heads) -> Settings {
    let (open, close) = heads.brackets;
    let mut settings = Settings::new();
    let mut current: Option<(&str, usize)> = None;
    for line in text.lines().map(str::trim) {
        let found = || heads.heads.iter().find(|head| begins(line, head)).map(|head| (*head, 0));
        let Some((head, depth)) = current.or_else(found) else { continue };
        let block: &mut String = settings.entry(head.to_owned()).or_default();
        block.push_str(line);
        block.push('\n');
        let depth = depth + line.matches(open).count();
        let depth = depth.saturating_sub(line.matches(close).count());
        current = (depth > 0).then_some((head, depth));
    }
    settings
}

/// Returns whether a line begins with a head as a word, in any case.
fn begins(line: &str, head: &str) -> bool {
    let Some((start, rest)) = line.split_at_checked(head.len()) else { return false };
    let ends_word =
        head.ends_with(['_', '(']) || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    start.eq_ignore_ascii_case(head) && ends_word
}
