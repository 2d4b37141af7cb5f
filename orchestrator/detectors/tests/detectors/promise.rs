use proptest::prelude::*;
use ralph_orchestrator_contract::{Claim, ClaimKind, ClaimSource, CompletionDetector, Findings};
use ralph_orchestrator_detectors::promise;
use serde_json::json;

use crate::{context, input};
use ClaimKind::{Complete, NeedsHuman};

fn detector() -> Box<dyn CompletionDetector> {
    promise::build(json!({}), &context()).unwrap()
}

fn look(message: &str) -> Findings {
    crate::inspect(&*detector(), input(None, Some(message)))
}

/// What is found in a message of an agent that was given that.
fn after(given: &str, message: &str) -> Findings {
    let input = ralph_orchestrator_contract::DetectorInput {
        given: Some(given),
        ..input(None, Some(message))
    };
    crate::inspect(&*detector(), input)
}

fn claims(message: &str) -> Vec<(ClaimKind, String)> {
    look(message).claims.into_iter().map(|claim| (claim.kind, claim.text)).collect()
}

const CLAIMS: &[(&str, ClaimKind, &str)] = &[
    ("<promise>COMPLETE: all done</promise>", Complete, "all done"),
    ("<promise>NEEDS_HUMAN: which key?</promise>", NeedsHuman, "which key?"),
    ("All done. <promise>COMPLETE: hello.txt written</promise>", Complete, "hello.txt written"),
    ("Text\r\n<promise>COMPLETE: a</promise>\r\n", Complete, "a"),
    ("<promise>COMPLETE: a</promise>\n\nSee README.md for more.", Complete, "a"),
    ("**<promise>COMPLETE: a</promise>**", Complete, "a"),
    ("_<promise>COMPLETE: a</promise>_.", Complete, "a"),
    ("<promise>COMPLETE: a</promise> 🎉", Complete, "a"),
    ("<promise>COMPLETE: a</promise>!  \t", Complete, "a"),
    ("<promise>COMPLETE:a: b</promise>", Complete, "a: b"),
    ("<promise> COMPLETE : a </promise>", Complete, "a"),
    ("<promise>COMPLETE</promise>", Complete, ""),
    ("<promise>COMPLETE:</promise>", Complete, ""),
    ("<promise>NEEDS_HUMAN</promise>", NeedsHuman, ""),
    ("<promise>COMPLETE：完成</promise>。", Complete, "完成"),
    ("<promise>\nCOMPLETE: a\n\nb\n</promise>", Complete, "a\n\nb"),
    ("<promise>COMPLETE: `cargo test` passes</promise>", Complete, "`cargo test` passes"),
    (
        "<promise>COMPLETE: uses `<promise>` and `</promise>`</promise>",
        Complete,
        "uses `<promise>` and `</promise>`",
    ),
    ("\u{1b}[32m<promise>COMPLETE: a</promise>\u{1b}[0m", Complete, "a"),
    ("\u{feff}<promise>\u{200b}COMPLETE: a</promise>\u{200b}", Complete, "a"),
    ("- <promise>COMPLETE: a</promise>", Complete, "a"),
    ("    <promise>COMPLETE: a</promise>", Complete, "a"),
    ("> As you asked:\n<promise>COMPLETE: a</promise>", Complete, "a"),
    ("```\nls\n```\n<promise>COMPLETE: a</promise>", Complete, "a"),
    ("I use the `<promise>` tag: <promise>COMPLETE: a</promise>", Complete, "a"),
    ("The <promise> tag: <promise>COMPLETE: a</promise>", Complete, "a"),
    ("<promise>COMPLETE: a</promise>\n<promise>COMPLETE: b</promise>", Complete, "b"),
    ("<promise>COMPLETE: if a < b && c > d</promise>", Complete, "if a < b && c > d"),
    ("<div>\n<promise>COMPLETE: a</promise>", Complete, "a"),
];

#[test]
fn a_complete_tag_at_the_end_of_its_line_is_a_claim() {
    for (message, kind, text) in CLAIMS {
        let found = look(message);
        let claim = Claim {
            kind: *kind,
            detector: "promise".into(),
            source: ClaimSource::Message,
            text: (*text).into(),
        };
        assert_eq!(found.claims, [claim], "{message:?}");
        assert_eq!(found.near_misses, [], "{message:?}");
    }
}

/// What is no claim, and what its near miss says; `-` if nothing is said.
const LOOK_ALIKES: &[(&str, &str)] = &[
    ("", "-"),
    ("COMPLETE: all done", "-"),
    ("NEEDS_HUMAN", "-"),
    ("I am done, all features are passing.", "-"),
    ("I did not write the <promise> tag.", "-"),
    ("I will end with <promise>...</promise>", "-"),
    ("<promised>COMPLETE: a</promised>", "-"),
    ("</promise>COMPLETE: a", "-"),
    ("promise COMPLETE: a", "-"),
    ("<promise>COMPLETE: a", "not closed"),
    ("<promise>COMPLETE: a<promise>", "not closed"),
    ("I will not output <promise>COMPLETE…", "not closed"),
    ("I will not output <promise>COMPLETE: a</promise> until it works", "other text"),
    ("\"<promise>COMPLETE: a</promise>\"", "other text"),
    ("“<promise>COMPLETE: a</promise>”", "other text"),
    ("<promise>COMPLETE: a</promise> - yes", "other text"),
    ("| tag | <promise>COMPLETE: a</promise> |", "other text"),
    ("<p><promise>COMPLETE: a</promise></p>", "other text"),
    ("<Promise>COMPLETE: a</Promise>", "exactly"),
    ("<PROMISE>COMPLETE: a</promise>", "exactly"),
    ("<promise>COMPLETE: a</ promise>", "exactly"),
    ("<promise>complete: a</promise>", "not followed by"),
    ("<promise>DONE</promise>", "not followed by"),
    ("<promise>COMPLETED: a</promise>", "not followed by"),
    ("<promise>COMPLETE a</promise>", "not followed by"),
    ("<promise>NEEDS HUMAN: a</promise>", "not followed by"),
    ("<promise>NOT COMPLETE: a</promise>", "not followed by"),
    ("`<promise>COMPLETE: a</promise>`", "in code"),
    ("I will write `<promise>COMPLETE: a</promise>` then.", "in code"),
    ("```\n<promise>COMPLETE: a</promise>\n```", "in code"),
    ("~~~xml\n<promise>COMPLETE: a</promise>\n~~~", "in code"),
    ("```\n<promise>COMPLETE: a</promise>", "in code"),
    ("1. a\n   ```\n   <promise>COMPLETE: a</promise>\n   ```", "in code"),
    ("> <promise>COMPLETE: a</promise>", "in a quote"),
    ("> you said <promise>COMPLETE: a</promise>", "in a quote"),
    ("- > <promise>COMPLETE: a</promise>", "in a quote"),
    ("<!-- <promise>COMPLETE: a</promise> -->", "comment"),
    ("<!--\n<promise>COMPLETE: a</promise>\n-->", "comment"),
];

#[test]
fn no_look_alike_is_a_claim() {
    for (message, hint) in LOOK_ALIKES {
        let found = look(message);
        assert_eq!(found.claims, [], "{message:?}");
        let hints: Vec<_> = found.near_misses.iter().map(|miss| &miss.hint).collect();
        if *hint == "-" {
            assert!(hints.is_empty(), "{message:?}: {hints:?}");
        } else {
            assert_eq!(hints.len(), 1, "{message:?}: {hints:?}");
            assert!(hints[0].contains(hint), "{message:?}: {hints:?}");
        }
    }
}

#[test]
fn complete_comes_before_needs_human() {
    for message in [
        "<promise>COMPLETE: a</promise>\n<promise>NEEDS_HUMAN: b</promise>",
        "<promise>NEEDS_HUMAN: b</promise>\n<promise>COMPLETE: a</promise>",
    ] {
        assert_eq!(claims(message), [(Complete, "a".into()), (NeedsHuman, "b".into())]);
    }
}

#[test]
fn a_near_miss_says_where_and_how_else() {
    let found = look("One\ntwo\n  so: <promise>done</promise>\n");
    let miss = &found.near_misses[0];
    assert_eq!((miss.line, miss.text.as_str()), (3, "so: <promise>done</promise>"));
    assert!(miss.hint.contains("`<promise>COMPLETE: what was done</promise>`"), "{}", miss.hint);
    assert!(miss.hint.contains("<promise>NEEDS_HUMAN:"), "{}", miss.hint);
}

#[test]
fn a_tag_may_span_forty_lines() {
    let message = |lines: usize| format!("<promise>COMPLETE: a{}</promise>", "\n".repeat(lines));
    assert_eq!(claims(&message(39)).len(), 1);
    let found = look(&message(40));
    assert_eq!(found.claims, []);
    assert!(found.near_misses[0].hint.contains("more than 40 lines"));
}

#[test]
fn long_messages_are_cut() {
    let text = &claims(&format!("<promise>COMPLETE: {}</promise>", "ä".repeat(100_000)))[0].1;
    assert_eq!(text.chars().count(), 4097);
    assert!(text.ends_with('…'));
}

#[test]
fn other_words() {
    let own = json!({"tag": "ralph-says", "complete": "FINI", "needs_human": "HELP"});
    let detector = promise::build(own, &context()).unwrap();
    let message = "<promise>COMPLETE: a</promise>\n<ralph-says>FINI: b</ralph-says>";
    let found = crate::inspect(&*detector, input(None, Some(message)));
    assert_eq!(found.claims[0].text, "b");
    assert!(detector.instructions().contains("<ralph-says>HELP: "));
}

#[test]
fn instructions_repeated_by_an_agent_claim_nothing() {
    let instructions = detector().instructions();
    assert_eq!(claims(&instructions), []);
}

#[test]
fn a_tag_that_the_agent_was_given_is_no_claim_wherever_it_stands() {
    let tag = "<promise>COMPLETE: a b</promise>";
    for given in [
        tag,
        "End with `<promise>COMPLETE: a b</promise>`.",
        "```\n<promise>COMPLETE: a b</promise>\n```",
        "> quote: <promise>COMPLETE: a b</promise> and so on",
        "<promise>\n  COMPLETE:\ta\u{a0}b\r\n</promise>",
        "<promise> COMPLETE : a b </promise>",
        "\u{1b}[1m<promise>\u{1b}[0mCOMPLETE: a\u{200b} b</promise>",
        "<promise>ＣＯＭＰＬＥＴＥ：a b</promise>",
        "the <promise> tag, a stray </promise>, and <promise><promise>COMPLETE: a b</promise>",
    ] {
        for message in [
            tag,
            "Done.\n\n**<promise>COMPLETE: a b</promise>**",
            "<promise>COMPLETE:a\nb</promise>",
        ] {
            let found = after(given, message);
            assert_eq!(found.claims, [], "{given:?} {message:?}");
            let hint = &found.near_misses[0].hint;
            assert!(hint.contains("word for word") && hint.contains("own words"), "{hint}");
        }
        assert_eq!(after(given, given).claims, [], "{given:?}");
    }
}

#[test]
fn words_of_its_own_are_a_claim_whatever_the_agent_was_given() {
    let given = "End with <promise>COMPLETE: what was done</promise> or \
                 <promise>NEEDS_HUMAN: why</promise>, or <promise>COMPLETE</promise>.";
    for own in [
        "COMPLETE: what was done, by me",
        "COMPLETE: what",
        "COMPLETE: why",
        "NEEDS_HUMAN: what was done",
    ] {
        let message = format!("{given}\n<promise>{own}</promise>");
        let found = after(given, &message);
        assert_eq!((found.claims.len(), found.near_misses.len()), (1, 0), "{own}: {found:?}");
    }
    // Whichever stands last: an echo takes nothing back.
    let message =
        format!("<promise>COMPLETE: mine</promise>\n{given}\n<promise>COMPLETE</promise>");
    assert_eq!(after(given, &message).claims[0].text, "mine");
    for empty in ["<promise>COMPLETE</promise>", "<promise>COMPLETE:</promise>"] {
        assert_eq!(after(given, empty).claims, [], "{empty}");
        assert_eq!(after("no example", empty).claims.len(), 1, "{empty}");
    }
    assert_eq!(after(given, "<promise>NEEDS_HUMAN: why</promise>").claims, []);
}

#[test]
fn feedback_on_a_near_miss_makes_no_echo_of_the_claim_that_corrects_it() {
    let tag = "<promise>COMPLETE: a < b and <c></promise>";
    for near in [
        format!("\"{tag}\""),
        format!("`{tag}`"),
        format!("> {tag}"),
        format!("{tag} {tag} too"),
        format!("x {tag}, <promise>NEEDS_HUMAN: a</promise> y"),
    ] {
        let found = look(&near);
        assert!(!found.near_misses.is_empty(), "{near}");
        let feedback_text: String =
            found.near_misses.iter().map(|miss| format!("{} {}\n", miss.text, miss.hint)).collect();
        assert!(feedback_text.contains("COMPLETE: …"), "{feedback_text}");
        assert_eq!(after(&feedback_text, tag).claims.len(), 1, "{near}: {feedback_text}");
    }
}

#[test]
fn ten_thousand_claims_and_a_huge_prompt_take_no_time() {
    let given: String =
        (0..20_000).map(|n| format!("<promise>COMPLETE: {n}</promise>\n")).collect();
    let began = std::time::Instant::now();
    assert_eq!(after(&given, &given).claims, []);
    assert_eq!(
        after(&"<promise>COMPLETE: ".repeat(100_000), "<promise>COMPLETE: x</promise>")
            .claims
            .len(),
        1
    );
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn the_prompt_is_not_searched() {
    let prompt = "<promise>COMPLETE: a</promise>";
    let found = crate::inspect(&*detector(), input(Some(prompt), None));
    assert_eq!(found, Findings::default());
    assert_eq!(crate::strip(&*detector(), prompt), prompt);
}

proptest! {
    #[test]
    fn any_text_is_survived(
        text in "\\PC*",
        parts in prop::collection::vec(
            "<promise>|</promise>|COMPLETE|: |\n|```\n|`|> |<!--|-->|\u{1b}\\[|.{0,5}", 0..30),
    ) {
        look(&text);
        look(&parts.concat());
    }

    #[test]
    fn an_echo_of_anything_is_never_a_claim_and_other_words_are(
        before in "\\PC{0,40}", text in "[a-zA-Z<>`*_. ]{0,20}[a-z]", behind in "\\PC{0,40}",
        own in "[0-9]{1,5}",
    ) {
        let given = format!("{before}<promise>COMPLETE: {text}</promise>{behind}");
        prop_assert_eq!(after(&given, &given).claims, []);
        prop_assert_eq!(after(&given, &format!("<promise>COMPLETE: {text}</promise>")).claims, []);
        let own = format!("{given}\n\n<promise>COMPLETE: {own}x</promise>");
        let plain = look(&own).claims;
        prop_assert_eq!(after(&given, &own).claims, plain);
    }

    #[test]
    fn a_tag_in_a_fence_is_never_a_claim(
        before in prop::collection::vec("[#>*+-]? ?[a-zA-Z .:<>\\[\\]()!]{0,30}", 0..8),
        fence in prop::sample::select(vec!["```", "~~~", "`````"]),
        inside in prop::collection::vec("[a-z<>`~ ]{0,2}|<promise>|</promise>|<div>|> a", 0..5),
    ) {
        let message = format!(
            "{}\n\n{fence}\n{}\n<promise>COMPLETE: a</promise>\n{fence}\n",
            before.join("\n"), inside.join("\n"));
        prop_assert_eq!(claims(&message), []);
    }
}
