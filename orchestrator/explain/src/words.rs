//! Collects the identifiers of a text.

use std::collections::BTreeSet;

/// Shorter words say too little about whether two parts belong together.
const MIN_BYTES: usize = 3;

/// Collects the identifiers of a text.
pub(crate) fn collect_words(text: &[u8]) -> BTreeSet<&[u8]> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let words = text.split(|byte| !is_of_word(byte));
    words
        .filter(|word| word.len() >= MIN_BYTES)
        .filter(|word| word.first().is_some_and(|byte| !byte.is_ascii_digit()))
        .collect()
}

/// Returns a path's file name without its last extension.
pub(crate) fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}
