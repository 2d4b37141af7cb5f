//! Normalizes the text of verdicts, so that two failures of the same kind compare as equal.

use std::sync::LazyLock;

use regex::Regex;

/// Parts that differ between executions without meaning anything: colours, times, durations, addresses in
/// memory and of sockets, temporary paths, seeds, and random identifiers. In this order, since a time contains
/// what looks like a duration. Other numbers, such as `12 failed`, are kept.
const PATTERNS: &[&str] = &[
    // Colours and other sequences for a terminal
    r"\x1b\[[0-9;?]*[A-Za-z]",
    // 2026-11-22T16:43:17.123Z, 2026-11-22 16:43, 16:43:17,123
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?)?",
    r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b",
    // 00:00.012
    r"\b\d{1,2}:\d\d[.,]\d+\b",
    // Sun Nov 22 2026, 22 Nov 2026
    r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{1,2}(?:,? \d{4})?\b",
    // UUIDs
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
    // 0x7f3c2a10, java.lang.Object@1b6d3586
    r"\b0x[0-9a-fA-F]{4,}\b",
    r"@[0-9a-f]{5,8}\b",
    // Temporary files and folders
    r"(?:^|[\s'\x22`(=\[:,<])(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/[^\s:'\x22`)\],;]+",
    // Ports of sockets on this machine
    r"\b(?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):\d{2,5}\b",
    // 0.12s, 12 ms, 3.4 seconds, 1m 2s, 250µs
    r"\b\d+(?:[.,]\d+)?\s?(?:ns|us|µs|μs|ms|msecs?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b",
    // duration_ms 0.52, time="0.012", 812.34 runs/s
    r"\bduration_ms[:=]? ?\d+(?:\.\d+)?",
    r"\btime=\x22\d+(?:[.,]\d+)*\x22",
    r"\b\d+(?:\.\d+)? (?:runs|tests|assertions|examples)/s\b",
    // --randomly-seed=123, Randomized with seed 123, -test.shuffle 123
    r"(?i)seed(?: is)?[\s=:#]*\d+\b",
    r"-test\.shuffle[ =]\d+\b",
    // Which iteration wrote or changed something
    r"(?i)\biteration \d+\b",
    // (pid 1234), process 1234
    r"(?i)\b(?:pid|process|thread|goroutine)[ =:#]*\d+\b",
    // thread 'a::b' (1234) panicked at, (node:1234) Warning, line 3: 1234 Killed, [gw0]
    r"\(\d+\) panicked\b",
    r"\(node:\d+\)",
    r"\b\d+ (?:Killed|Terminated|Aborted|Segmentation fault|Bus error)\b",
    r"\[gw\d+\]",
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
            // As runners print the same failure twice.
            (
                "thread 'tests::connects' (4711) panicked at src/lib.rs:2:37:\nassertion failed",
                "thread 'tests::connects' (815) panicked at src/lib.rs:2:37:\nassertion failed",
            ),
            (
                "panic: no database\n\ngoroutine 7 [running]:\nmain.TestConnect(0xc0001a2b3c)",
                "panic: no database\n\ngoroutine 1932 [running]:\nmain.TestConnect(0xc000ffee01)",
            ),
            (
                "-test.shuffle 1699999999999\n--- FAIL: TestA (0.00s)",
                "-test.shuffle 17\n--- FAIL: TestA (0.13s)",
            ),
            (
                "Using --randomly-seed=3012987\nFAILED tests/test_db.py::test_connect",
                "Using --randomly-seed=41\nFAILED tests/test_db.py::test_connect",
            ),
            ("[gw0] FAILED t.py::a", "[gw3] FAILED t.py::a"),
            (
                "Randomized with seed 12345\n1 example, 1 failure",
                "Randomized with seed 9\n1 example, 1 failure",
            ),
            (
                "Run options: --seed 4711\nFinished in 0.001s, 812.34 runs/s, 1218.5 assertions/s.\n1 runs",
                "Run options: --seed 3\nFinished in 0.2s, 5.1 runs/s, 7 assertions/s.\n1 runs",
            ),
            ("Time: 00:00.012, Memory: 6.00 MB", "Time: 00:01.4, Memory: 6.00 MB"),
            ("not ok 1 - a\n  duration_ms: 0.52", "not ok 1 - a\n  duration_ms: 11.3"),
            ("<testcase name=\"a\" time=\"0.012\">", "<testcase name=\"a\" time=\"1.5\">"),
            ("expected java.lang.Object@1b6d3586", "expected java.lang.Object@4554617c"),
            ("\u{1b}[31mFAIL\u{1b}[0m a", "\u{1b}[1;31mFAIL\u{1b}[m a"),
            ("(node:4711) Warning: x", "(node:9) Warning: x"),
            ("run.sh: line 3: 4711 Killed  ./x", "run.sh: line 3: 99 Killed  ./x"),
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
            ("got 0x2a", "got 0x2b"),
            ("thread 'a' (1) panicked at x", "thread 'b' (1) panicked at x"),
            ("a@example.org", "b@example.org"),
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
