//! The promise: found only where its word stands, bounded, and whatever the line ending is.

use ralph_orchestrator_contract::{ClaimKind, ClaimSource, Findings};
use ralph_orchestrator_detectors::promise;
use serde_json::json;

use crate::detector::{context, findings, strip};

/// Reads the bytes as a final message.
pub fn check(data: &[u8]) {
    let message = String::from_utf8_lossy(data);
    let detector = promise::build(json!({}), &context()).unwrap();
    let found = findings(&*detector, None, Some(&message));
    assert!(found.claims.iter().all(|claim| claim.source == ClaimSource::Message));
    // Escape sequences may stand inside a word.
    if !message.contains(['\u{1b}', '\u{9b}']) {
        for kind in kinds(&found) {
            let word = if kind == ClaimKind::Complete { "COMPLETE" } else { "NEEDS_HUMAN" };
            assert!(message.contains(word), "a claim without its word");
        }
    }
    if !message.contains('\r') {
        let other = findings(&*detector, None, Some(&message.replace('\n', "\r\n")));
        assert_eq!(kinds(&other), kinds(&found));
    }
    assert!(findings(&*detector, Some(&message), None).claims.is_empty(), "a prompt is no message");
    assert_eq!(strip(&*detector, &message), message);
}

fn kinds(findings: &Findings) -> Vec<ClaimKind> {
    findings.claims.iter().map(|claim| claim.kind).collect()
}
