//! Outputs that no runner prints, or that a test prints to be taken for a runner.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use ralph_orchestrator_test_results::{
    OutputStream, TestResults, TestResultsReader, find_steering_changes, read_test_results,
};

fn counts(output: &str) -> Option<(u64, u64, u64)> {
    let counts = read_test_results(output.as_bytes())?.counts;
    Some((counts.passed, counts.failed, counts.skipped))
}

#[test]
fn an_output_without_a_runner_has_no_number() {
    for output in [
        "",
        "\n\n",
        "all 3 checks passed\n",
        "3 passed\n",
        "12 files checked in 0.10s\n",
        "error: 1 warning in 0.10s\n",
        "1 warning in 0.10s\n",
        "ok\nok 1\n",
        "# pass 5\n# fail 1\n",
        "Tests: 5 passed, 5 total\n",
        "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        "--- PASS: TestOne (0.00s)\nPASS\nok  \texample.org/m\t0.003s\n",
        "  5 passing (7ms)\nabove was no empty line\n",
        "Ran 5 tests in 0.01s\n\nOK\n",
        "<testcase name=\"a\"/>\n",
        "100% tests passed, 0 tests failed out of 9\n",
        "99999999999999999999999999 passed in 0.01s\n",
        "\n  99999999999999999999999999 passing (7ms)\n",
    ] {
        assert_eq!(counts(output), None, "{output}");
    }
}

#[test]
fn a_quoted_summary_counts_only_in_its_place() {
    let cargo = "running 1 test\ntest result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    assert_eq!(counts(cargo), Some((1, 0, 0)));
    let pytest = "=== test session starts ===\n===== 9 passed in 0.01s =====\n=== FAILURES ===\n9 passed in 0.01s\nTests:       9 passed, 9 total\n=== short test summary info ===\n=== 1 failed in 0.01s ===\n";
    assert_eq!(counts(pytest), Some((0, 1, 0)));
    let xml = "<testsuites><testsuite tests=\"1\"><testcase name=\"a\"><system-out>\n=== 9 passed in 0.01s ===\n</system-out></testcase></testsuite></testsuites>\n";
    assert_eq!(counts(xml), Some((1, 0, 0)));
}

#[test]
fn the_streams_do_not_mix_their_lines() {
    let mut reader = TestResultsReader::default();
    reader.push(OutputStream::Stdout, b"3 passed");
    reader.push(OutputStream::Stderr, b"warning: x\n");
    reader.push(OutputStream::Stdout, b" in 0.01s\n");
    assert_eq!(reader.finish().unwrap().counts.passed, 3);
}

#[test]
fn a_cut_output_gives_what_is_left_and_says_so() {
    let mut reader = TestResultsReader::default();
    reader.push(OutputStream::Stdout, b"running 2 tests\ntest a ... o");
    reader.mark_cut();
    let rest = b"st b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    reader.push(OutputStream::Stdout, rest);
    let results = reader.finish().unwrap();
    assert_eq!((results.counts.passed, results.is_cut, results.has_all_names()), (2, true, false));
}

/// Returns the time for an output of about so many bytes.
fn time(piece: &str, bytes: usize) -> Duration {
    let output = piece.repeat(bytes / piece.len() + 1);
    let start = Instant::now();
    let _results: Option<TestResults> = read_test_results(output.as_bytes());
    start.elapsed()
}

#[test]
fn time_grows_with_the_length_only() {
    for piece in [
        "a",
        "\n",
        "a\r",
        "\u{1b}[1m",
        "\u{1b}]",
        "1 passed, ",
        "test a ... ok\n",
        "test a ... ",
        "a::b PASSED ",
        "a::b PASSED\n",
        "<testcase name=\"",
        "<testsuite tests=\"1\" a='\n",
        "<",
        "=",
        "ok 1 - a # # ",
        "    ok 1 - a {\n",
        "✔ a (1ms) # ",
        "  ✔ a (1ms)\n    b\n",
        ") # ) # (1ms) # ",
        "{\"Action\":",
        "{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"t\"}\n",
        "=== RUN   a\n--- PASS: a (0.00s)\n",
        "--- PASS: ",
        "a > b PASSED\n",
        "test_a (a.b) ... ",
        "1 passed in 0.01s\n",
    ] {
        let short = time(piece, 1 << 14);
        let long = time(piece, 1 << 16);
        // Four times as long; quadratic would be sixteen.
        assert!(long < short * 9 + Duration::from_millis(500), "{piece:?}: {short:?}, {long:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_output_panics(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _results: Option<TestResults> = read_test_results(&bytes);
    }

    #[test]
    fn no_words_of_runners_panic(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "\n", "\n\n", "\r", " ", "  ", "    ", "1", "99999999999999999999", "ok", "not ok", "- ", "# ", "SKIP", "1..",
            "TAP version 13\n", "test ", " ... ", "FAILED", "running 1 test\n", "test result: ok. ", "1 passed; ", "=== ",
            "test session starts", " in 0.1s", "::", " PASSED", "[100%]\n", "<testsuite", "<testcase", " name=\"", "\"", ">",
            "/>", "</testcase>", "Tests: ", "Test Suites: ", "passed", " failed", ", ", " total\n", "Ran ", " tests in ",
            "✔ ", "ℹ tests ", "ℹ duration_ms ", "▶ ", "(1ms)", "{\"Action\":\"pass\"", "}", "--- PASS: ", " (0.00s)",
            "Test project ", "% tests passed, ", " > ", "ä", "\u{1b}[", "Summary [", "s] ", " Nextest run ID ",
        ]), 0..200)) {
        let _results: Option<TestResults> = read_test_results(words.concat().as_bytes());
    }

    #[test]
    fn no_settings_panic(
        name in proptest::sample::select(vec![
            "pyproject.toml", "setup.cfg", "package.json", "pom.xml", "build.gradle", "CMakeLists.txt", "mix.exs", "Cargo.toml",
        ]),
        base in proptest::collection::vec(any::<u8>(), 0..200),
        now in "[a-z\\[\\]{}()<>=\" \n.,:]{0,200}",
    ) {
        let _changes = find_steering_changes(name, Some(&base), Some(now.as_bytes()));
    }
}
