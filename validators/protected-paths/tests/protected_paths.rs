//! The validator as the engine uses it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::task::{Context, Poll, Waker};

use ralph_orchestrator_contract::{
    BuildContext, BuildError, Change, ChangeKind, Claim, ClaimKind, ClaimSource, EvidenceValidator,
    NeverCancelled, ValidationContext, Verdict,
};
use ralph_validator_protected_paths::build;
use serde_json::{Value, json};

fn built(config: Value) -> Result<Box<dyn EvidenceValidator>, BuildError> {
    let root = Path::new("/project");
    let context = BuildContext {
        config_dir: root.into(),
        workspace: root.into(),
        prompt_dir: root.into(),
        path: String::new(),
    };
    build(config, &context)
}

fn verdict(changes: &[Change]) -> Verdict {
    let claim = Claim {
        kind: ClaimKind::Complete,
        detector: "promise".into(),
        source: ClaimSource::Message,
        text: String::new(),
    };
    let context = ValidationContext {
        checkout: &[],
        output: None,
        run: "run",
        iteration: 1,
        claim: &claim,
        workspace: Path::new("/project"),
        tree_since: 1,
        written_in: &BTreeMap::new(),
        evidence_listed: true,
        protected_changes: changes,
        env: &BTreeMap::new(),
    };
    let validator = built(json!({"paths": ["tests/**"]})).unwrap();
    let mut future = validator.validate(context, &NeverCancelled);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        Poll::Pending => panic!("the validator waits"),
    }
}

fn change(path: &str, kind: ChangeKind) -> Change {
    Change { path: path.into(), kind }
}

fn reasons(changes: &[Change]) -> Vec<String> {
    match verdict(changes) {
        Verdict::Rejected { reasons } => reasons,
        verdict => panic!("not rejected: {verdict:?}"),
    }
}

#[test]
fn unchanged_paths_are_accepted() {
    assert!(verdict(&[]).is_accepted());
}

#[test]
fn each_change_is_named_with_what_to_do() {
    let reasons = reasons(&[
        change("tests/a.rs", ChangeKind::Modified),
        change("tests/b.rs", ChangeKind::Removed),
        change("tests/conftest.py", ChangeKind::Added),
    ]);
    assert_eq!(
        reasons,
        [
            "protected path `tests/a.rs` was modified: restore it as it was when the run began",
            "protected path `tests/b.rs` was removed: restore it as it was when the run began",
            "protected path `tests/conftest.py` was added: remove it, the work has to do without it",
        ]
    );
}

#[test]
fn many_changes_are_counted() {
    let of = |count: usize| {
        let changes: Vec<_> =
            (0..count).map(|n| change(&format!("tests/{n}"), ChangeKind::Removed)).collect();
        reasons(&changes)
    };
    assert_eq!(of(20).len(), 20);
    assert_eq!(of(21).len(), 20);
    assert_eq!(of(5000)[19], "and 4981 more protected paths: restore them too");
}

#[test]
fn names_are_made_harmless() {
    let long = "ä".repeat(5000);
    let reasons = reasons(&[
        change("tests/a\n\u{1b}[2J\u{202e}", ChangeKind::Added),
        change(&long, ChangeKind::Added),
    ]);
    assert!(reasons[0].contains("`tests/a\\n\\u{1b}[2J\\u{202e}`"), "{reasons:?}");
    assert!(reasons[1].chars().count() < 300, "{reasons:?}");
}

#[test]
fn globs_are_handed_to_the_engine() {
    let globs = ["tests/**", "Makefile", "**/*.{spec,test}.ts", ".github/**", "a[0-9]?"];
    let validator = built(json!({ "paths": globs })).unwrap();
    assert_eq!(validator.protects(), globs);
    let described = validator.describe();
    assert_eq!(described.kind, "protected-paths");
    assert!(described.demands.starts_with("`tests/**`, `Makefile`, "), "{}", described.demands);
}

#[test]
fn mistakes_are_named_by_key_and_reason() {
    let table: Vec<(Value, &[&str], &str)> = vec![
        (json!({}), &[], "missing field `paths`"),
        (json!({"paths": "tests"}), &["paths"], "expected a sequence"),
        (json!({"paths": []}), &["paths"], "at least one glob"),
        (json!({"paths": ["a", 7]}), &["paths", "1"], "expected a string"),
        (json!({"paths": ["a", " "]}), &["paths", "1"], "empty glob"),
        (json!({"paths": ["a/[b"]}), &["paths", "0"], "malformed: unclosed character class"),
        (json!({"paths": ["{a,b"]}), &["paths", "0"], "malformed"),
        (json!({"paths": ["/etc/*"]}), &["paths", "0"], "absolute"),
        (json!({"paths": ["../x"]}), &["paths", "0"], "`..`"),
        (json!({"paths": ["./x"]}), &["paths", "0"], "`.`"),
        (json!({"paths": ["tests/"]}), &["paths", "0"], "write `tests/**`"),
        (json!({"paths": ["!tests"]}), &["paths", "0"], "exceptions"),
    ];
    for (config, key, part) in table {
        let error = built(config.clone()).err().unwrap();
        assert_eq!(error.key, key, "{config}");
        assert!(error.message.contains(part), "{config}: {error}");
    }
    assert_eq!(built(json!({"path": []})).err().unwrap().unknown_key.as_deref(), Some("path"));
}
