//! Keeping texts short.

/// The text, cut at a character's end to at most `max` bytes and an ellipsis.
#[must_use]
pub fn bounded(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max);
    format!("{}…", text.get(..end).unwrap_or_default())
}
