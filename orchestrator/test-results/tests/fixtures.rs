//! Outputs of test runners, and what is read from them.
//!
//! `tests/fixtures/table.tsv` has a row for each file: passed, failed, skipped, and whether all tests that ran are named;
//! `-` where there is no number to be read. Files in a folder `documented` are written from the runner's
//! documentation, all others are recorded.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_test_results::{
    OutputStream, ResultDifference, TestResults, TestResultsReader, compare_test_results,
    read_test_results,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// All fixtures by their path below the folder, without the ending.
fn fixtures() -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "txt") {
                let name = path.strip_prefix(folder()).unwrap().with_extension("");
                all.insert(name.to_str().unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    all
}

fn describe(results: Option<&TestResults>) -> String {
    let Some(results) = results else { return "-".to_owned() };
    let counts = results.counts;
    let names = if results.has_all_names() { "all" } else { "some" };
    format!("{} {} {} {names}", counts.passed, counts.failed, counts.skipped)
}

#[test]
fn reads_what_runners_print() {
    let table = fs::read_to_string(folder().join("table.tsv")).unwrap();
    let read: Vec<String> = fixtures()
        .iter()
        .map(|(name, output)| format!("{name}\t{}", describe(read_test_results(output).as_ref())))
        .collect();
    let expected: Vec<&str> = table.lines().collect();
    assert!(read == expected, "read:\n{}\n", read.join("\n"));
}

#[test]
fn pieces_of_any_size_give_the_same() {
    for (name, output) in fixtures() {
        let whole = read_test_results(&output);
        for size in [1, 7, 1000] {
            let mut reader = TestResultsReader::default();
            for piece in output.chunks(size) {
                reader.push(OutputStream::Stderr, piece);
            }
            assert_eq!(reader.finish(), whole, "{name} in pieces of {size} bytes");
        }
    }
}

#[test]
fn runs_of_several_runners_are_added_up() {
    let all = fixtures();
    let names =
        ["pytest/verbose", "cargo-test/several", "nextest/several", "jest/verbose", "mocha/spec"];
    let mut both = Vec::new();
    let (mut ran, mut skipped) = (0, 0);
    for name in names {
        both.extend_from_slice(&all[name]);
        let counts = read_test_results(&all[name]).unwrap().counts;
        ran += counts.ran();
        skipped += counts.skipped;
    }
    let sum = read_test_results(&both).unwrap();
    assert_eq!((sum.counts.ran(), sum.counts.skipped), (ran, skipped));
    assert!(sum.has_all_names());
}

/// Ways in which a check runs less without failing, each between two outputs of the same tests.
#[test]
fn a_filter_is_noticed() {
    let all = fixtures();
    for (base, now, expected) in [
        (
            "cargo-test/ok",
            "cargo-test/filtered",
            "5 tests no longer run: one/src/lib.rs, other_whole, … and 3 more",
        ),
        (
            "cargo-test/ok",
            "cargo-test/none",
            "6 tests no longer run: one/src/lib.rs, other_whole, … and 4 more",
        ),
        ("pytest/verbose", "pytest/filtered", "8 tests no longer run: 10 ran at the start, 2 now"),
        (
            "pytest/verbose",
            "pytest/very-quiet",
            "the number of tests can no longer be read from the output: 10 ran at the start",
        ),
        (
            "node/tap",
            "node/none",
            "10 tests no longer run: fails, group > also inside, … and 8 more",
        ),
        (
            "jest/verbose",
            "jest/none",
            "7 tests no longer run: t/a.test.js > fails, t/a.test.js > group > deep > deeper, … and 5 more",
        ),
        (
            "vitest/verbose",
            "vitest/none",
            "7 tests no longer run: t/a.test.js > fails, t/a.test.js > group > deep > deeper, … and 5 more",
        ),
        ("mocha/spec", "mocha/none", "6 tests no longer run: deeper, fails, … and 4 more"),
        (
            "unittest/ok-verbose",
            "unittest/none-3.11",
            "2 tests no longer run: test_ok.B.test_one, test_ok.B.test_three",
        ),
        (
            "go/verbose",
            "go/none-plain",
            "9 tests no longer run: example.org/m.TestFails, example.org/m.TestNoNewline, … and 7 more",
        ),
    ] {
        let [base_read, now_read] = [base, now].map(|name| read_test_results(&all[name]));
        let differences = compare_test_results(base_read.as_ref(), now_read.as_ref(), false);
        let sentences: Vec<String> = differences.iter().map(ResultDifference::describe).collect();
        assert_eq!(sentences, [expected], "{base} and {now}");
    }
}
