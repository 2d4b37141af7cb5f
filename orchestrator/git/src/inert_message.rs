//! Messages of commits that make a code host do nothing: agents write a part of them, and a host closes issues, mentions
//! people and skips checks for what they say.

use std::sync::LazyLock;

use regex::Regex;

/// What hosts act on, in two groups between which a space is put. The patterns cannot fail to compile: a test compiles
/// them.
static ACTING: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        // Issues, also of other repositories.
        r"(#)([0-9])",
        r"(?i)\b(gh-)([0-9])",
        r"(?i)(/(?:issues|pull|merge_requests|work_items)/)([0-9])",
        // People and teams.
        r"((?:^|[^A-Za-z0-9._%+-])@)([A-Za-z0-9])",
        // Checks are skipped.
        r"(?i)(\[)((?:skip|no|ci|actions)[ -])",
        r"(?i)\b(skip)(-checks:)",
    ];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// Returns a text with spaces in what a code host would act on, such as `fixes #3`, `@somebody` or `[skip ci]`.
#[must_use]
pub fn make_inert(text: &str) -> String {
    let spread = |text: String, pattern: &Regex| pattern.replace_all(&text, "$1 $2").into_owned();
    ACTING.iter().fold(text.to_owned(), spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_message_closes_an_issue_mentions_anybody_or_skips_checks() {
        assert_eq!(ACTING.len(), 6);
        let table = [
            ("fixes #43, closes o/r#3", "fixes # 43, closes o/r# 3"),
            ("Fixes GH-4", "Fixes GH- 4"),
            ("closes https://h.org/o/r/issues/3", "closes https://h.org/o/r/issues/ 3"),
            ("@admin and (@org/team)", "@ admin and (@ org/team)"),
            ("[skip ci] [CI skip] [skip-ci] [no ci]", "[ skip ci] [ CI skip] [ skip-ci] [ no ci]"),
            ("skip-checks: true", "skip -checks: true"),
            ("a@b.org, list[0], # title, C#", "a@b.org, list[0], # title, C#"),
            (
                "Work\n\nRalph-Run: 0198\nRalph-Item: 12\n",
                "Work\n\nRalph-Run: 0198\nRalph-Item: 12\n",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(make_inert(text), expected);
            assert_eq!(make_inert(expected), expected);
        }
    }
}
