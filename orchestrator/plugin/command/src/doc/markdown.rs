//! Texts of plugins in Markdown.

use ralph_orchestrator_text::plain_line;

/// The longest text of a plugin that is printed, in characters.
pub(super) const TEXT_MAX: usize = 1000;

/// Returns a text in one line, with what would be markup escaped: it is an author's, and may be anybody's.
pub(super) fn in_text(text: &str) -> String {
    plain_line(text, TEXT_MAX).replace('<', "\\<")
}

/// Returns a text as the cell of a table.
pub(super) fn cell(text: &str) -> String {
    in_text(text).replace('|', "\\|")
}

/// Returns a text as code.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", plain_line(text, TEXT_MAX).replace('`', "'"))
}

/// Returns words as code, with commas between them.
pub(super) fn code_list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(code).collect::<Vec<_>>().join(", ")
}
