//! Cuts texts that are stored.

/// Cuts a text to at most so many bytes.
pub(super) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
    }
}
