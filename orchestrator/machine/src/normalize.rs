//! Normalizes the text of verdicts, so that two failures of the same kind compare as equal.

use std::sync::LazyLock;

use regex::Regex;

/// Parts that differ between executions without meaning anything: times, durations, addresses in
/// memory and of sockets, temporary paths, and random identifiers. In this order, since a time contains
/// what looks like a duration. Other numbers, such as `12 failed`, are kept.
const PATTERNS: &[&str] = &[
    // 2026-11-22T16:43:17.123Z, 2026-11-22 16:43, 16:43:17,123
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?)?",
    r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b",
    // Sun Nov 22 2026, 22 Nov 2026
    r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{1,2}(?:,? \d{4})?\b",
    // UUIDs
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
    // 0x7f3c2a10
    r"\b0x[0-9a-fA-F]{4,}\b",
    // Temporary files and folders
    r"(?:^|[\s'\x22`(=\[:,<])(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/[^\s:'\x22`)\],;]+",
    // Ports of sockets on this machine
    r"\b(?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):\d{2,5}\b",
    // 0.12s, 12 ms, 3.4 seconds, 1m 2s, 250µs
    r"\b\d+(?:[.,]\d+)?\s?(?:ns|us|µs|μs|ms|msecs?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b",
    // Which iteration wrote or changed something
    r"(?i)\biteration \d+\b",
    // (pid 1234), process 1234
    r"(?i)\b(?:pid|process|thread)[ =:#]*\d+\b",
];

/// Returns the text with everything that matches one of the [`PATTERNS`] replaced.
pub(super) fn normalize(text: &str) -> String {
    static ALL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&PATTERNS.join("|")).ok());
    match &*ALL {
        Some(all) => all.replace_all(text, "~").into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_out_what_differs_by_chance() {
        let same = [
            ("12 failed, 3 passed in 0.12s", "12 failed, 3 passed in 3.4s"),
            ("finished in 1.02 seconds", "finished in 12 ms"),
            ("ran for 1m 2s", "ran for 3m 59s"),
            ("at 2026-11-22T16:43:17.123Z: no", "at 2026-11-23T01:02:03Z: no"),
            ("[16:43:17] no", "[01:02:03,999] no"),
            ("Sun Nov 22 16:43:17 2026 no", "Mon Nov 23 01:02:03 2026 no"),
            ("<Foo object at 0x7f3c2a10>", "<Foo object at 0x55d0c8e0f1a0>"),
            ("/tmp/pytest-of-me/pytest-12/x.txt: no", "/tmp/pytest-of-me/pytest-13/x.txt: no"),
            ("no /private/var/folders/a/b/T/x", "no /private/var/folders/z/T/y"),
            ("connect 127.0.0.1:43211: refused", "connect 127.0.0.1:50000: refused"),
            ("id 01a20061-93fd-4b0c-9faf-6f0d4fbb0f0f", "id 11a20061-93fd-4b0c-9faf-6f0d4fbb0f0f"),
            ("worker (pid 1234) died", "worker (pid 77) died"),
            (
                "written in iteration 1, changed in iteration 5",
                "written in iteration 1, changed in iteration 6",
            ),
        ];
        for (one, other) in same {
            assert_ne!(one, other);
            assert_eq!(normalize(one), normalize(other));
        }
    }

    #[test]
    fn keeps_what_means_something() {
        let other = [
            ("12 failed", "11 failed"),
            ("expected 3, got 4", "expected 3, got 5"),
            ("tests/a.py:12: no", "tests/a.py:13: no"),
            ("src/tmp/a: no", "src/tmp/b: no"),
            ("exit 1", "exit 2"),
            ("only 1 of 3 evidence files", "only 2 of 3 evidence files"),
            ("version 1.2.3", "version 1.2.4"),
        ];
        for (one, other) in other {
            assert_ne!(normalize(one), normalize(other), "{one}");
        }
    }

    #[test]
    fn the_expression_compiles() {
        assert_ne!(normalize("0.5s"), "0.5s");
    }
}
