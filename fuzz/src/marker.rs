//! The marker: a prompt without its claims has none, and says the same task with either line ending.

use ralph_orchestrator_contract::ClaimSource;
use ralph_orchestrator_detectors::marker;
use serde_json::json;

use crate::detector::{context, findings, strip};

/// Reads the bytes as a prompt.
pub fn check(data: &[u8]) {
    let prompt = String::from_utf8_lossy(data);
    let detector = marker::build(json!({}), &context()).unwrap();
    let found = findings(&*detector, Some(&prompt), None);
    assert!(found.claims.iter().all(|claim| claim.source == ClaimSource::State));
    let stripped = strip(&*detector, &prompt);
    if found.claims.is_empty() {
        assert_eq!(stripped, prompt, "a prompt without a claim was changed");
    } else {
        assert!(stripped.len() < prompt.len(), "a claim was not taken away");
    }
    let again = findings(&*detector, Some(&stripped), None);
    assert!(again.claims.is_empty(), "a claim was left in {stripped:?}");
    assert_eq!(strip(&*detector, &stripped), stripped);
    // A byte order mark is no part of the first line.
    let lines = |text| str::trim_start_matches(text, '\u{feff}').split_inclusive(['\n', '\r']);
    let mut before = lines(&prompt);
    let kept = lines(&stripped).all(|kept| before.any(|line| line == kept));
    assert!(kept, "more than lines was taken away: {stripped:?}");
    if !prompt.contains('\r') {
        let other = findings(&*detector, Some(&prompt.replace('\n', "\r\n")), None);
        assert_eq!(other.claims, found.claims);
    }
    assert!(findings(&*detector, None, Some(&prompt)).claims.is_empty(), "a message is no prompt");
}
