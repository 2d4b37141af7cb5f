//! Words that set a variable.

/// Returns whether a word is `NAME=value`.
#[must_use]
pub fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_begins_with_a_name() {
        for (word, expected) in [
            ("A=1", true),
            ("_a1=", true),
            ("1a=b", false),
            ("=b", false),
            ("./a=b", false),
            ("a", false),
        ] {
            assert_eq!(is_assignment(word), expected, "{word}");
        }
    }
}
