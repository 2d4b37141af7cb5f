use ralph_orchestrator_contract::BuildError;
use ralph_orchestrator_detectors::{marker, promise};
use serde_json::{Value, json};

use crate::context;

fn refused(build: &str, config: Value) -> BuildError {
    let built = match build {
        "marker" => marker::build(config, &context()),
        _ => promise::build(config, &context()),
    };
    built.err().unwrap()
}

#[test]
fn defaults_and_own_words_are_accepted() {
    assert_eq!(marker::build(json!({}), &context()).unwrap().name(), "marker");
    assert_eq!(promise::build(json!({}), &context()).unwrap().name(), "promise");
    marker::build(json!({"word": "ALL-PROVED"}), &context()).unwrap();
    let own = json!({"tag": "ralph-says", "complete": "FINI", "needs_human": "HELP"});
    promise::build(own, &context()).unwrap();
}

#[test]
fn mistakes_are_named_by_key_and_reason() {
    let table = [
        ("marker", json!({"word": ""}), "word", "empty"),
        ("marker", json!({"word": "abc"}), "word", "shorter"),
        ("marker", json!({"word": "Done"}), "word", "common"),
        ("marker", json!({"word": "TASK COMPLETE"}), "word", "' '"),
        ("marker", json!({"word": 7}), "word", "expected a string"),
        ("promise", json!({"tag": ""}), "tag", "empty"),
        ("promise", json!({"tag": "div"}), "tag", "shorter"),
        ("promise", json!({"tag": "code"}), "tag", "common"),
        ("promise", json!({"tag": "<promise>"}), "tag", "'<'"),
        ("promise", json!({"complete": ""}), "complete", "empty"),
        ("promise", json!({"needs_human": "A B"}), "needs_human", "' '"),
        ("promise", json!({"needs_human": "complete"}), "needs_human", "both"),
    ];
    for (detector, config, key, part) in table {
        let error = refused(detector, config.clone());
        assert_eq!(error.key, [key], "{detector} {config}");
        assert!(error.message.contains(part), "{detector} {config}: {error}");
    }
}

#[test]
fn unknown_keys_are_distinguished() {
    assert_eq!(refused("marker", json!({"wrod": "x"})).unknown_key.as_deref(), Some("wrod"));
    assert_eq!(refused("promise", json!({"nonce": true})).unknown_key.as_deref(), Some("nonce"));
}
