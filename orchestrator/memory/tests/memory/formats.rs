//! The exact bytes of each form, with a fixed clock.

use ralph_orchestrator_memory::{
    Action, EntryFormat, ErrorEntry, HandoffNotes, MarkdownEntry, SessionEntry, Summary,
    ViewBounds, bounded_view, highest_session, merge, session_id, split_entries, tail_entries,
};

/// 2024-01-15 10:30:00 UTC.
const AT: i64 = 1_705_314_600;

fn entry<'a>(action: Action, item: Option<&'a str>, body: &'a str) -> SessionEntry<'a> {
    SessionEntry { unix_s: AT, session: "s001_103000", action, item, body }
}

#[test]
fn a_session_is_written_as_documented() {
    let body = "Starting work on feature: User Authentication\n";
    let text = entry(Action::SessionStarted, Some("user-auth"), body).render();
    let expected = "\
============================================================
[2024-01-15 10:30:00] Session: s001_103000
Action: session_started
Feature: user-auth

Starting work on feature: User Authentication

";
    assert_eq!(text, expected);
    let without = entry(Action::FeatureCompleted, None, "Done.").render();
    assert!(without.contains("\nAction: feature_completed\n\nDone.\n\n"), "{without}");
}

#[test]
fn the_end_of_a_session_has_the_five_sections() {
    let summary = Summary {
        accomplished: vec!["the login form".into()],
        checks: vec!["tests: rejected".into()],
        issues: vec![
            "two\nlines of\n============================================================".into(),
        ],
        next: Vec::new(),
        status: vec!["45/200 tests passing".into()],
    };
    let expected = "\
Accomplished this session:
- the login form
Checks and tests completed:
- tests: rejected
Issues found or fixed:
- two lines of ============================================================
What next:
- nothing is recorded
Completion status:
- 45/200 tests passing
";
    assert_eq!(summary.render(), expected);
    let text = entry(Action::SessionEnded, None, &summary.render()).render();
    assert_eq!(split_entries(EntryFormat::Sessions, text.as_bytes()).entries.len(), 1);
    let many = Summary { next: vec!["x".repeat(1000); 1000], ..Summary::default() };
    assert!(many.render().len() < 20 * 420 + 200, "bounded");
}

#[test]
fn a_hand_off_names_next_steps_files_and_commit() {
    let notes = HandoffNotes {
        reason: "iteration 3 was ended at 75.0 % of its context".into(),
        next: vec!["finish the form".into()],
        files: vec!["src/form.rs (new)".into()],
        commit: Some("abc123".into()),
    };
    let expected = "\
HANDOFF: iteration 3 was ended at 75.0 % of its context

NEXT STEPS FOR INCOMING SESSION:
- finish the form

Files changed:
- src/form.rs (new)

Commit: abc123
";
    assert_eq!(notes.render(), expected);
}

#[test]
fn an_iteration_in_markdown() {
    let lines = ["changed: a.rs".to_owned(), "verdict: rejected".to_owned()];
    let entry = MarkdownEntry { iteration: 2, headline: "Added\n## tests", lines: &lines };
    let expected = "## Iteration 2 - Added ## tests\n\n- changed: a.rs\n- verdict: rejected\n\n";
    assert_eq!(entry.render(), expected);
    let file = [EntryFormat::Markdown.preamble(), entry.render().as_bytes()].concat();
    let parts = split_entries(EntryFormat::Markdown, &file);
    assert_eq!((parts.preamble, parts.entries.len()), (b"# Progress\n\n".as_slice(), 1));
}

#[test]
fn a_failure_with_its_last_lines() {
    let output: String = (0..200).map(|line| format!("line {line}\n")).collect();
    let what = "the agent failed: exit status 1";
    let entry =
        ErrorEntry { unix_s: AT, iteration: 4, session: "s004_103000", what, output: &output };
    let text = entry.render();
    let first =
        "[2024-01-15 10:30:00] Iteration 4 (s004_103000): the agent failed: exit status 1\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("  line 150\n") && !text.contains("line 149"), "{text}");
    assert!(text.ends_with("  line 199\n\n"), "{text}");
    let long = "x".repeat(1 << 20);
    assert!(ErrorEntry { output: &long, ..entry }.render().len() < 10_000);
    let file = format!("{text}{text}{text}");
    assert_eq!(tail_entries(&file, 2, 1 << 20), format!("{text}{text}"));
    assert_eq!(tail_entries(&file, 9, text.len() + 1), text);
    assert_eq!(tail_entries(&file, 9, 5), "");
}

#[test]
fn ids_have_three_digits_or_more_and_the_time_of_the_start() {
    assert_eq!(session_id(1, AT), "s001_103000");
    assert_eq!(session_id(1000, AT + 3601), "s1000_113001");
    let file = "[2024-01-15 10:30:00] Session: s041_103000\nx Session: s99_1\n[z] Session: s7_1\n";
    assert_eq!(highest_session(file.as_bytes()), 41);
    assert_eq!(highest_session(b"\xff no session"), 0);
}

#[test]
fn what_was_cut_off_is_restored_and_what_was_added_is_kept() {
    let one = entry(Action::SessionStarted, None, "one").render();
    let two = entry(Action::SessionEnded, None, "two").render();
    let three = entry(Action::SessionStarted, None, "three").render();
    let merged = |before: &str, found: &str| {
        let merged = merge(EntryFormat::Sessions, before.as_bytes(), found.as_bytes());
        (String::from_utf8(merged.content).unwrap(), merged.is_restored)
    };
    let both = format!("{one}{two}");
    assert_eq!(merged(&both, &format!("{both}more\n")), (format!("{both}more\n"), false));
    assert_eq!(merged(&both, ""), (both.clone(), true));
    assert_eq!(merged(&both, both.get(..both.len() - 7).unwrap()), (both.clone(), true), "cut off");
    assert_eq!(merged(&both, &format!("{two}{three}")), (format!("{both}{three}"), true));
    assert_eq!(merged(&both, "new words\n"), (format!("{both}new words\n"), true));
    let edited = both.replace("one", "won");
    let expected = format!("{both}{}", one.replace("one", "won"));
    assert_eq!(merged(&both, &edited), (expected, true), "an edited entry follows");
}

#[test]
fn the_view_has_whole_entries_the_newest_last() {
    let entries: Vec<String> = (1..=1000).map(|n| format!("entry {n}")).collect();
    let view = |entries: &[String], most, bytes| {
        bounded_view("Notes:\n", entries, ViewBounds { entries: most, bytes })
    };
    assert_eq!(view(&entries, 2, 1000), "Notes:\nentry 999\n\nentry 1000\n\n");
    assert_eq!(view(&entries, 5, 7 + 12), "Notes:\nentry 1000\n\n");
    assert_eq!(view(&entries, 5, 7 + 11), "");
    assert_eq!(view(&[], 5, 100), "");
    let large = ["small".to_owned(), "x".repeat(500)];
    assert_eq!(view(&large, 5, 100), "Notes:\nsmall\n\n[an entry of 500 bytes is left out]\n\n");
}
