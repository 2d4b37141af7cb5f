//! Words that look like reports, summaries of scripts, and what terminals do to lines.

use super::Reported;

pub(super) const REPORTED: &[Reported] = &[
    ("i.txt", "$ ./test.sh\nFAILED: 12 tests failed\n", 2, "FAILED: 12 tests failed"),
    ("i.txt", "FAILED: 1 test failed", 1, "FAILED: 1 test failed"),
    (
        "c.txt",
        "\u{1b}[31m\u{1b}[1m=== \u{1b}[31m\u{1b}[1m3 failed\u{1b}[0m, \u{1b}[32m2 passed\u{1b}[0m\u{1b}[31m in 1.20s\u{1b}[0m\u{1b}[31m ===\u{1b}[0m\r\n",
        1,
        "=== 3 failed, 2 passed in 1.20s ===",
    ),
    ("c.txt", "\u{feff}FAIL\r\n", 1, "FAIL"),
    ("c.txt", "1 %\r50 %\rFAILED (errors=1)", 1, "FAILED (errors=1)"),
    (
        "c.txt",
        "test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 0 passed; 1 failed; 0 ignored",
        1,
        "",
    ),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("w.txt", "errors: 0\n0 failed\n0 failing\nfailures: 0\n"),
    ("w.txt", "GET /error 200\nGET /status/500 200 3ms\n"),
    ("w.txt", "error error ERROR Error: the word alone says nothing\nFAILED\nfailed\nFATAL\n"),
    ("w.txt", "test_failed_login PASSED\ntest failed_login ... ok\n"),
    (
        "w.txt",
        "Fixed: the server no longer answers 500 or prints `Traceback (most recent call last):`",
    ),
    ("w.txt", "WARN 3 failed, 2 passed in 1.2s was the result of last week\n"),
    (
        "w.txt",
        "FAILED: 0 tests failed\nPASSED: 12 tests\nFAILED: 12 tests failed in June, none today\n",
    ),
];
