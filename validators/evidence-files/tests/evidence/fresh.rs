use ralph_orchestrator_contract::Verdict;
use serde_json::json;

use crate::Place;

/// Whether one file counts, by `fresh`, `tree_since` and the iteration that wrote its content last (0:
/// before the run; `None`: after the last iteration).
const TABLE: &[(&str, u64, Option<u64>, bool)] = &[
    ("tree", 3, None, true),
    ("tree", 3, Some(4), true),
    ("tree", 3, Some(3), true),
    ("tree", 3, Some(2), false),
    ("tree", 3, Some(0), false),
    ("tree", 1, Some(1), true),
    ("tree", 1, Some(0), false),
    ("tree", 0, Some(0), false),
    ("tree", 0, None, true),
    ("run", 3, None, true),
    ("run", 3, Some(1), true),
    ("run", 3, Some(0), false),
    ("tree", 0, Some(1), true),
    ("run", 0, Some(0), false),
    ("any", 3, Some(0), true),
    ("any", 3, None, true),
];

#[test]
fn by_content_and_age() {
    for (fresh, tree_since, seen, counts) in TABLE {
        let mut place = Place::new();
        place.write("a.txt", "proof");
        place.tree_since = *tree_since;
        if let Some(seen) = seen {
            place.seen("proof", *seen);
        }
        let config = json!({"min_files": 1, "fresh": fresh});
        let verdict = place.verdict(config.clone());
        assert_eq!(verdict.is_accepted(), *counts, "{fresh} {tree_since} {seen:?}: {verdict:?}");
        if !counts {
            assert!(place.refusal(config).contains("is stale"));
        }
    }
}

#[test]
fn the_default_is_the_tree() {
    let place = Place::new();
    place.write("a.txt", "proof").seen("proof", 2);
    let why = place.refusal(json!({"min_files": 1}));
    assert_eq!(
        why,
        "`a.txt` is stale: it was written in iteration 2, but the work was changed in iteration 3. Make \
         it again from the work as it is now; the same content counts if it is written anew"
    );
    place.seen("proof", 0);
    assert!(place.refusal(json!({"min_files": 1})).contains("before this run began"));
}

#[test]
fn what_is_not_listed_may_be_old() {
    let mut place = Place::new();
    place.write("a.txt", "proof");
    place.listed = false;
    let why = place.refusal(json!({"min_files": 1}));
    assert!(why.contains("too many files"), "{why}");
    assert!(place.verdict(json!({"min_files": 1, "fresh": "any"})).is_accepted());
    place.seen("proof", 3);
    assert!(place.verdict(json!({"min_files": 1})).is_accepted());
}

#[test]
fn what_was_there_before_does_no_harm() {
    let place = Place::new();
    place.write_three().write("old.txt", "3 failed").write("copy.txt", "3 failed");
    place.seen("3 failed", 0);
    let verdict = place.verdict(json!({"must_not_match": ["failed"], "max_files": 3}));
    assert!(verdict.is_accepted(), "{verdict:?}");
}

#[test]
fn a_new_name_makes_nothing_new() {
    let place = Place::new();
    place.seen("proof", 0);
    place.write("renamed.txt", "proof").write("sub/copied.txt", "proof");
    let reasons = place.reasons(json!({"min_files": 1}));
    assert!(reasons[1..].iter().all(|why| why.contains("is stale")), "{reasons:?}");
}

#[test]
fn copies_count_once() {
    let place = Place::new();
    place.write("a.txt", "proof").write("b.txt", "proof").write("c.json", "7");
    let reasons = place.reasons(json!({}));
    assert_eq!(
        reasons[0],
        "only 2 of 3 evidence files in `tasks/a/validation-evidence` count: add 1 \
                            file (png, txt or json) that show that the work is done"
    );
    assert_eq!(reasons[1], "`b.txt` is a copy of `a.txt`, which is counted once");
    assert_eq!(place.counted(json!({"min_files": 2})), ["a.txt", "c.json"]);
}

#[test]
fn a_file_that_is_no_evidence_does_not_spoil_its_copy() {
    let place = Place::new();
    place.write("a.png", "42 passed").write("b.txt", "42 passed");
    assert_eq!(place.counted(json!({"min_files": 1})), ["b.txt"]);
}

#[test]
fn the_evidence_is_named_with_its_digest_and_size() {
    let place = Place::new();
    place.write_three();
    let Verdict::Accepted { summary, evidence } = place.verdict(json!({})) else { panic!() };
    assert_eq!(summary, "3 files in `tasks/a/validation-evidence`: 1 json, 1 png, 1 txt");
    let text = &evidence[0];
    assert_eq!(text.path, place.path("out.txt"));
    assert_eq!((text.bytes, text.digest.clone()), (10, blake3::hash(b"42 passed\n").to_string()));
}
