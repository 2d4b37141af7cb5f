use std::borrow::Cow;

use proptest::prelude::*;
use ralph_orchestrator_contract::{ClaimKind, ClaimSource, CompletionDetector, Findings};
use ralph_orchestrator_detectors::marker;
use serde_json::json;

use crate::{context, input};

fn detector() -> Box<dyn CompletionDetector> {
    marker::build(json!({}), &context()).unwrap()
}

fn look(prompt: &str) -> Findings {
    crate::inspect(&*detector(), input(Some(prompt), None))
}

/// Claims that are accepted on a line of their own, whatever stands around it.
const CLAIMS: &[&str] = &[
    // The five forms.
    "- [x] TASK_COMPLETE",
    "[x] TASK_COMPLETE",
    "**TASK_COMPLETE**",
    "TASK_COMPLETE",
    "Status: TASK_COMPLETE",
    // What agents make of them.
    "- [X] TASK_COMPLETE",
    "* [x] TASK_COMPLETE",
    "+ [x] TASK_COMPLETE",
    "1. [x] TASK_COMPLETE",
    "- [x] **TASK_COMPLETE**",
    "- [x]  TASK_COMPLETE.",
    "**[x] TASK_COMPLETE**",
    "**TASK_COMPLETE.**",
    "**TASK_COMPLETE**.",
    "***TASK_COMPLETE***",
    "__TASK_COMPLETE__",
    "*TASK_COMPLETE*",
    "TASK_COMPLETE.",
    "TASK_COMPLETE!!",
    "TASK_COMPLETE   ",
    "  TASK_COMPLETE",
    "TASK\\_COMPLETE",
    "TASK_COMPLETE\\",
    "Status:TASK_COMPLETE",
    "STATUS: TASK_COMPLETE",
    "**Status**: TASK_COMPLETE",
    "**Status:** TASK_COMPLETE",
    "Status: **TASK_COMPLETE**",
    "**Status**: **TASK_COMPLETE**.",
    "**Status: TASK_COMPLETE**",
    "\u{feff}TASK_COMPLETE",
    "\u{a0}-\u{a0}[x]\u{a0}TASK_COMPLETE",
    "TASK_\u{200b}COMPLETE\u{200d}",
    "\u{1b}[1;32mTASK_COMPLETE\u{1b}[0m",
    "ＴＡＳＫ＿ＣＯＭＰＬＥＴＥ",
    "－　［ｘ］　ＴＡＳＫ_COMPLETE",
];

#[test]
fn every_form_is_a_claim() {
    for line in CLAIMS {
        for prompt in [
            line.to_string(),
            format!("# Task\n\nBuild it.\n{line}"),
            format!("# Task\r\n\r\n{line}\r\nMore.\r\n"),
            format!("> a quote\n{line}\n"),
            format!("```\ncode\n```\n{line}\n"),
        ] {
            let found = look(&prompt);
            assert_eq!(found.claims.len(), 1, "{prompt:?}");
            let claim = &found.claims[0];
            assert_eq!(claim.kind, ClaimKind::Complete);
            assert_eq!(claim.source, ClaimSource::State);
            assert_eq!(claim.detector, "marker");
            assert!(claim.text.contains("TASK_COMPLETE"), "{prompt:?}: {}", claim.text);
            assert_eq!(found.near_misses, [], "{prompt:?}");
        }
    }
}

#[test]
fn claims_in_lists_and_odd_places() {
    for prompt in [
        "- work\n  - [x] TASK_COMPLETE\n",
        "- work\n    - [x] TASK_COMPLETE\n",
        "- work\n\t- [x] TASK_COMPLETE\n",
        "1. work\n\n    TASK_COMPLETE\n",
        "a paragraph\n    TASK_COMPLETE",
        "TASK_COMPLETE\n---\n",
        "<details>\nTASK_COMPLETE\n</details>",
        "old mac\rTASK_COMPLETE\rmore",
        "``` not closed on one line ```\nTASK_COMPLETE",
        "TASK_COMPLETE\n\n```\nnever closed",
    ] {
        assert_eq!(look(prompt).claims.len(), 1, "{prompt:?}");
    }
}

#[test]
fn one_claim_however_many_lines() {
    let found = look("Status: TASK_COMPLETE\n\n## TASK_COMPLETE\n\n- [x] TASK_COMPLETE\n");
    assert_eq!(found.claims.len(), 1);
    assert_eq!(found.claims[0].text, "Status: TASK_COMPLETE");
    assert_eq!(found.near_misses, []);
}

/// What is no claim, and what its near miss says; `-` if nothing is said.
const LOOK_ALIKES: &[(&str, &str)] = &[
    // Not checked.
    ("- [ ] TASK_COMPLETE", "-"),
    ("[ ] TASK_COMPLETE", "-"),
    ("- [] TASK_COMPLETE", "-"),
    ("* [-] TASK_COMPLETE", "-"),
    ("☐ TASK_COMPLETE", "-"),
    // Another word.
    ("task_complete", "not spelled"),
    ("- [x] task_complete", "not spelled"),
    ("Task complete.", "not spelled"),
    ("TASK-COMPLETE", "not spelled"),
    ("TASK_COMPLETED", "not spelled"),
    ("- [x] TASK_COMPLETED", "not spelled"),
    ("Status: TASK COMPLETE", "not spelled"),
    ("TASK_INCOMPLETE", "-"),
    ("MY_TASK_COMPLETE", "-"),
    ("TASK_COMPLETE_V2", "-"),
    ("- [x] Write the README", "-"),
    ("Status: done", "-"),
    // Prose.
    ("not TASK_COMPLETE", "-"),
    ("- [x] not TASK_COMPLETE", "-"),
    ("Status: not TASK_COMPLETE", "-"),
    ("TASK_COMPLETE is not reached", "-"),
    ("TASK_COMPLETE, when reached, ends the loop.", "-"),
    ("Remember to mark TASK_COMPLETE when done.", "-"),
    ("When done, add this line: TASK_COMPLETE", "-"),
    ("When done, add - [x] TASK_COMPLETE", "-"),
    ("Add `- [x] TASK_COMPLETE` to this file when done", "-"),
    ("I will NOT write TASK_COMPLETE yet", "-"),
    // More on the line.
    ("TASK_COMPLETE - when everything works", "other text"),
    ("TASK_COMPLETE: all tests pass", "other text"),
    ("**TASK_COMPLETE** (all tests pass)", "other text"),
    ("**TASK_COMPLETE** — done", "other text"),
    ("TASK_COMPLETE. Nothing is left.", "other text"),
    ("- [x] TASK_COMPLETE all tests pass", "other text"),
    ("Status: TASK_COMPLETE - all tests pass", "other text"),
    ("TASK_COMPLETE TASK_COMPLETE", "more than once"),
    ("**TASK_COMPLETE** / **TASK_COMPLETE**", "more than once"),
    // Other signs.
    ("## TASK_COMPLETE", "heading"),
    ("# Status: TASK_COMPLETE", "heading"),
    ("- TASK_COMPLETE", "checked box"),
    ("* **TASK_COMPLETE**", "checked box"),
    ("- Status: TASK_COMPLETE", "checked box"),
    ("`TASK_COMPLETE`", "backticks"),
    ("`- [x] TASK_COMPLETE`", "backticks"),
    ("Status: `TASK_COMPLETE`", "backticks"),
    ("State: TASK_COMPLETE", "label"),
    ("Current status: TASK_COMPLETE", "label"),
    ("TASK_COMPLETE?", "other signs"),
    ("\"TASK_COMPLETE\"", "other signs"),
    ("✅ TASK_COMPLETE", "other signs"),
    ("[✓] TASK_COMPLETE", "other signs"),
    ("-[x] TASK_COMPLETE", "other signs"),
    ("~~TASK_COMPLETE~~", "other signs"),
    ("| TASK_COMPLETE |", "other signs"),
    // Where examples stand.
    ("```\n- [x] TASK_COMPLETE\n```", "-"),
    ("```text\nTASK_COMPLETE", "-"),
    ("~~~\nTASK_COMPLETE\n~~~", "-"),
    ("````\n```\nTASK_COMPLETE\n```\n````", "-"),
    ("- do this:\n  ```\n  TASK_COMPLETE\n  ```", "-"),
    ("<div>\n```\nTASK_COMPLETE\n```", "-"),
    ("Like this:\n\n    TASK_COMPLETE\n", "-"),
    ("- Like this:\n\n      - [x] TASK_COMPLETE\n", "-"),
    ("> TASK_COMPLETE", "-"),
    ("> - [x] TASK_COMPLETE", "-"),
    ("- > TASK_COMPLETE", "-"),
    ("<!-- TASK_COMPLETE -->", "-"),
    ("<!--\nTASK_COMPLETE\n-->", "-"),
    ("text <!-- a\nTASK_COMPLETE\n-->", "-"),
    ("<pre>\nTASK_COMPLETE\n</pre>", "-"),
    ("a `span\nTASK_COMPLETE\nof` code", "backticks"),
];

#[test]
fn no_look_alike_is_a_claim() {
    for (prompt, hint) in LOOK_ALIKES {
        let found = look(prompt);
        assert_eq!(found.claims, [], "{prompt:?}");
        let hints: Vec<_> = found.near_misses.iter().map(|miss| &miss.hint).collect();
        if *hint == "-" {
            assert!(hints.is_empty(), "{prompt:?}: {hints:?}");
        } else {
            assert_eq!(hints.len(), 1, "{prompt:?}");
            assert!(hints[0].contains(hint), "{prompt:?}: {hints:?}");
        }
    }
}

#[test]
fn a_near_miss_says_where_and_how_else() {
    let found = look("\u{feff}# Task\r\n\r\n  ## TASK_COMPLETE \r\n");
    let miss = &found.near_misses[0];
    assert_eq!((miss.line, miss.text.as_str()), (3, "## TASK_COMPLETE"));
    for form in ["`- [x] TASK_COMPLETE`", "`[x] T", "`**T", "`TASK_COMPLETE`", "`Status: T"] {
        assert!(miss.hint.contains(form), "{}", miss.hint);
    }
}

#[test]
fn near_misses_are_few_and_short() {
    let prompt = format!("TASK_COMPLETE - {}\n", "x".repeat(3000)).repeat(50);
    let found = look(&prompt);
    assert_eq!(found.near_misses.len(), 8);
    assert!(found.near_misses.iter().all(|miss| miss.text.chars().count() <= 201));
}

#[test]
fn another_word() {
    let detector = marker::build(json!({"word": "Ｇeprüft-1"}), &context()).unwrap();
    let prompt = "TASK_COMPLETE\n- [x] Geprüft-1\n";
    let found = crate::inspect(&*detector, input(Some(prompt), None));
    assert_eq!(found.claims[0].text, "- [x] Geprüft-1");
    assert_eq!(crate::strip(&*detector, prompt), "TASK_COMPLETE\n");
    assert!(detector.instructions().contains("`- [x] Geprüft-1`"));
}

#[test]
fn the_final_message_is_not_searched() {
    let found = crate::inspect(&*detector(), input(None, Some("TASK_COMPLETE")));
    assert_eq!(found, Findings::default());
}

#[test]
fn a_claim_that_another_one_hid_is_stripped_too() {
    // Without the list item the fence goes on, and ends before the last line.
    let prompt = "- [x] TASK_COMPLETE\n  ```\n  a\nb\n ```\nTASK_COMPLETE\n";
    assert_eq!(crate::strip(&*detector(), prompt), "  ```\n  a\nb\n ```\n");
}

#[test]
fn stripping_takes_the_claims_and_nothing_else() {
    let table = [
        ("a\n- [x] TASK_COMPLETE\nb\n", "a\nb\n"),
        ("a\r\nTASK_COMPLETE\r\n", "a\r\n"),
        ("\u{feff}TASK_COMPLETE\na", "\u{feff}a"),
        ("a\nTASK_COMPLETE", "a\n"),
        ("TASK_COMPLETE\nStatus: TASK_COMPLETE\n", ""),
        (
            "```\nTASK_COMPLETE\n```\nTASK_COMPLETE\n## TASK_COMPLETE",
            "```\nTASK_COMPLETE\n```\n## TASK_COMPLETE",
        ),
    ];
    for (prompt, rest) in table {
        assert_eq!(crate::strip(&*detector(), prompt), rest, "{prompt:?}");
    }
    assert!(matches!(crate::strip(&*detector(), "- [ ] TASK_COMPLETE"), Cow::Borrowed(_)));
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC*", lines in prop::collection::vec(".{0,20}|TASK_COMPLETE|```|> |<!--", 0..20)) {
        for prompt in [text, lines.join("\n")] {
            let found = look(&prompt);
            let detector = detector();
            let rest = crate::strip(&*detector, &prompt);
            prop_assert_eq!(found.claims.is_empty(), rest == prompt.as_str());
        }
    }

    #[test]
    fn a_marker_anywhere_strips_away(
        lines in prop::collection::vec("[#>*+] [a-z .:]{0,20}|[-0-9]{1,2}[.)] [a-z]{1,9}|[A-Za-z ,.:]{0,30}", 0..12),
        at in any::<prop::sample::Index>(),
        form in 0..5_usize,
        ending in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let document: String = lines.iter().map(|line| format!("{line}{ending}")).collect();
        let mut marked = lines;
        marked.insert(at.index(marked.len() + 1), CLAIMS[form].to_owned());
        let marked: String = marked.iter().map(|line| format!("{line}{ending}")).collect();
        let detector = detector();
        prop_assert_eq!(look(&marked).claims.len(), 1);
        prop_assert_eq!(crate::strip(&*detector, &marked), crate::strip(&*detector, &document));
        prop_assert_eq!(crate::strip(&*detector, &document), document.as_str());
    }
}
