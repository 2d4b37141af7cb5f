//! Words that a shell reads back.

use std::ffi::OsStr;

/// Returns a word as a shell needs it.
#[must_use]
pub fn quote_word(word: impl AsRef<OsStr>) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a command as one would type it.
#[must_use]
pub fn quote_command<W: AsRef<OsStr>>(words: &[W]) -> String {
    words.iter().map(quote_word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Part, read_shell};
    use proptest::prelude::*;

    #[test]
    fn commands_can_be_typed_again() {
        assert_eq!(quote_command(&["sh", "-c", "echo it's", ""]), r"sh -c 'echo it'\''s' ''");
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(words in prop::collection::vec("\\PC{0,12}|[ \n'\"$`\\\\]{0,6}", 1..4)) {
            let mut words: Vec<String> = words;
            words.insert(0, "a".to_owned());
            let read = read_shell(&quote_command(&words));
            prop_assert!(read.is_whole());
            let [Part::Command(command)] = read.known() else { return Err(TestCaseError::fail("not one")) };
            let found: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
            prop_assert_eq!(found, words);
        }
    }
}
