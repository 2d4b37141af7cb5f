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
    OutputStream, TestResults, TestResultsReader, read_test_results,
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
