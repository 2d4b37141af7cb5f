//! Evidence that says itself that something failed.
//!
//! Outputs of unittest, cargo test, cargo-nextest, `node --test`, and CPython's tracebacks are as
//! these programs printed them; those of the other tools are written after them.

mod go;
mod http;
mod javascript;
mod json;
mod junit;
mod python;
mod rust;
mod tap;
mod words;

use proptest::prelude::*;
use ralph_orchestrator_contract::Verdict;
use serde_json::json;

use crate::Place;

/// Name, content, the line that is named, and its text.
type Reported = (&'static str, &'static str, usize, &'static str);

/// For each tool: what it prints when something failed, and what is no report of that.
type Table = (&'static [Reported], &'static [(&'static str, &'static str)]);

const TABLES: [Table; 9] = [
    (python::REPORTED, python::NOT_REPORTED),
    (rust::REPORTED, rust::NOT_REPORTED),
    (go::REPORTED, go::NOT_REPORTED),
    (javascript::REPORTED, javascript::NOT_REPORTED),
    (tap::REPORTED, tap::NOT_REPORTED),
    (junit::REPORTED, junit::NOT_REPORTED),
    (http::REPORTED, http::NOT_REPORTED),
    (json::REPORTED, json::NOT_REPORTED),
    (words::REPORTED, words::NOT_REPORTED),
];

fn reported() -> impl Iterator<Item = &'static Reported> {
    TABLES.iter().flat_map(|(reported, _)| *reported)
}

fn config() -> serde_json::Value {
    json!({"min_files": 1, "extensions": ["txt", "json", "xml", "md"]})
}

#[test]
fn names_the_line_that_reports_a_failure() {
    let mut wrong = Vec::new();
    for (name, content, line, text) in reported() {
        let place = Place::new();
        place.write(name, content);
        let start = format!("`{name}` line {line} reports a failure");
        let reason_text = match place.verdict(config()) {
            Verdict::Rejected { reasons } => reasons,
            verdict => vec![format!("{verdict:?}")],
        };
        if reason_text.len() != 1
            || !reason_text[0].starts_with(&start)
            || !reason_text[0].contains(text)
        {
            wrong.push(format!("{content}\n  expected {start}: {text}\n  told {reason_text:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), reported().count(), wrong.join("\n\n"));
}

#[test]
fn takes_no_word_for_a_report() {
    let mut wrong = Vec::new();
    for (name, content) in TABLES.iter().flat_map(|(_, table)| *table) {
        let place = Place::new();
        place.write(name, content);
        let verdict = place.verdict(config());
        if !verdict.is_accepted() {
            wrong.push(format!("{content}\n  {verdict:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_passing_run_with_the_same_words_takes_its_place() {
    let place = Place::new();
    place.write_three().write("more.txt", python::PYTEST);
    let reasons = place.reasons(json!({}));
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("pytest") && reasons[0].contains("reports_failure"), "{reasons:?}");
    place.write("more.txt", python::PYTEST_OK);
    assert!(place.verdict(json!({})).is_accepted());
}

#[test]
fn may_be_allowed() {
    let place = Place::new();
    place
        .write("a.txt", python::UNITTEST)
        .write("b.json", "{\"ok\":false}")
        .write("c.txt", rust::CARGO);
    assert_eq!(place.reasons(json!({})).len(), 3);
    assert!(place.verdict(json!({"reports_failure": "allow"})).is_accepted());
    assert!(!place.verdict(json!({"reports_failure": "reject"})).is_accepted());
}

#[test]
fn stale_evidence_reports_nothing() {
    let place = Place::new();
    place.write_three().write("old.txt", python::UNITTEST).seen(python::UNITTEST, 0);
    assert!(place.verdict(json!({})).is_accepted());
}

#[test]
fn the_quoted_line_is_cut_and_harmless() {
    let place = Place::new();
    let long = format!("FAILED (failures=1{})", ", skipped=1".repeat(100));
    place.write("a.txt", format!("{long}\n"));
    let reason = &place.reasons(config())[0];
    let quoted = reason.split('`').nth(3).unwrap();
    assert_eq!(quoted.chars().count(), 121, "{quoted}");
    assert!(quoted.ends_with('…') && reason.contains("again"), "{reason}");

    place.write("a.txt", "HTTP/1.1 500 \u{202e}dlo\u{7}\n");
    let reason = &place.reasons(config())[0];
    assert!(reason.contains("HTTP/1.1 500 \\u{202e}dlo"), "{reason}");
    assert!(!reason.chars().any(char::is_control), "{reason:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pieces of all the forms, in any order and damaged anywhere.
    #[test]
    fn any_text_is_survived(
        picks in prop::collection::vec((0..reported().count(), any::<prop::sample::Index>(), any::<char>()), 1..6),
        name in "[a-z]{1,5}\\.(txt|xml|md)",
    ) {
        let mut text = String::from("x");
        for (pick, at, c) in picks {
            let mut piece: Vec<char> = reported().nth(pick).unwrap().1.chars().collect();
            let at = at.index(piece.len());
            piece[at] = if c == '\0' { '<' } else { c };
            text.extend(piece);
        }
        let place = Place::new();
        place.write(name, &text);
        let checked = !matches!(place.verdict(config()), Verdict::Error { .. });
        prop_assert!(checked);
    }

    /// What stands before and after a report, on lines of its own, does not hide it.
    #[test]
    fn a_report_is_found_among_other_lines(
        before in "([a-z ]{0,20}\n){0,5}", after in "(\n[a-z ]{0,20}){0,5}",
        pick in 0..3_usize,
    ) {
        let report = ["FAILED (failures=1)", "3 failed, 1 passed in 0.10s", "FAIL\tpkg\t0.1s"][pick];
        let place = Place::new();
        place.write("a.txt", format!("{before}{report}{after}"));
        let reasons = place.reasons(config());
        let line = before.matches('\n').count() + 1;
        prop_assert!(reasons[0].starts_with(&format!("`a.txt` line {line} reports")), "{reasons:?}");
    }
}
