//! Words of a shell.

use std::ffi::OsStr;

/// Returns a word as a shell needs it.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,@%".contains(letter);
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
