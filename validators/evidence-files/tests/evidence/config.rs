use ralph_orchestrator_contract::BuildError;
use ralph_validator_evidence_files::build;
use serde_json::{Value, json};

use crate::Place;

fn refused(config: Value) -> BuildError {
    build(config, &Place::bare().context()).err().unwrap()
}

#[test]
fn mistakes_are_named_by_key_and_reason() {
    let table: Vec<(Value, &[&str], &str)> = vec![
        (json!({"min_files": 0}), &["min_files"], "at least 1"),
        (json!({"min_files": -1}), &["min_files"], "-1"),
        (json!({"max_files": 2}), &["max_files"], "fewer than min_files = 3"),
        (json!({"extensions": []}), &["extensions"], "at least one"),
        (json!({"extensions": ["txt", ""]}), &["extensions", "1"], "no file extension"),
        (json!({"extensions": ["*.png"]}), &["extensions", "0"], "no file extension"),
        (json!({"fresh": "always"}), &["fresh"], "`tree`, `run`, `any`"),
        (json!({"reports_failure": "warn"}), &["reports_failure"], "`reject` or `allow`"),
        (json!({"must_match": ["ok", "("]}), &["must_match", "1"], "`(` is no regular expression"),
        (json!({"must_not_match": ["[a"]}), &["must_not_match", "0"], "unclosed"),
        (json!({"max_file_size": "many"}), &["max_file_size"], "\"10 MiB\""),
        (json!({"max_file_size": 0}), &["max_file_size"], "\"10 MiB\""),
        (json!({"max_file_size": -7}), &["max_file_size"], "\"10 MiB\""),
        (json!({"dir": ""}), &["dir"], "a folder of its own"),
        (json!({"dir": "."}), &["dir"], "a folder of its own"),
        (json!({"dir": "../.."}), &["dir"], "holds the workspace"),
        (json!({"dir": ".."}), &["dir"], "holds the prompt file"),
        (json!({"dir": "/"}), &["dir"], "holds the workspace"),
    ];
    for (config, key, part) in table {
        let error = refused(config.clone());
        assert_eq!(error.key, key, "{config}");
        assert!(error.message.contains(part), "{config}: {error}");
    }
    assert_eq!(refused(json!({"minfiles": 3})).unknown_key.as_deref(), Some("minfiles"));
}

#[test]
fn the_folder_is_given_to_the_engine() {
    let place = Place::bare();
    assert_eq!(place.validator(json!({})).evidence_dirs(), [place.dir()]);
    let other = place.validator(json!({"dir": "./../proof/x"}));
    assert_eq!(other.evidence_dirs(), [place.root.path().join("tasks/proof/x")]);
}

#[test]
fn demands_are_given_to_the_agent() {
    let place = Place::bare();
    let demands = |config| place.validator(config).describe().demands;
    assert_eq!(
        demands(json!({})),
        "at least 3 different files (png, txt or json) in `tasks/a/validation-evidence`, made after \
         the last change of the work; none reports a failure"
    );
    let config = json!({"min_files": 1, "extensions": ["txt"], "fresh": "any", "must_match": ["ok"],
                        "must_not_match": ["failed"], "reports_failure": "allow"});
    assert_eq!(
        demands(config),
        "at least 1 file (txt) in `tasks/a/validation-evidence`; one matches `ok`; none matches \
         `failed`"
    );
    assert_eq!(place.validator(json!({})).describe().kind, "evidence-files");
}
