//! Which policies validate, and how journals of other versions compare.

use super::*;

fn policy(validators: &str) -> FrozenPolicy {
    let text = format!(
        "{{\"validators\":{validators},\"digest\":\"d\",\"trust_agent\":false,\
         \"after_rejection\":\"keep\"}}"
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_journal_that_does_not_say_what_runs_anything_can_be_resumed() {
    let old = policy(r#"[{"name":"e","kind":"evidence-files","required":true}]"#);
    let new =
        policy(r#"[{"name":"e","kind":"evidence-files","required":true,"runs_check":false}]"#);
    assert!(!old.is_evidence_only() && new.is_evidence_only());
    assert!(new.decides_like(&old) && old.decides_like(&new));
    let other = policy(r#"[{"name":"f","kind":"evidence-files","required":true}]"#);
    assert!(!new.decides_like(&other));
}

#[test]
fn only_required_validators_make_a_completion_more_than_evidence() {
    let read = r#"{"name":"e","kind":"k","required":true,"runs_check":false}"#;
    let run = r#"{"name":"t","kind":"k","required":true,"runs_check":true}"#;
    let optional = r#"{"name":"o","kind":"k","required":false,"runs_check":true}"#;
    assert!(policy(&format!("[{read}]")).is_evidence_only());
    assert!(policy(&format!("[{read},{optional}]")).is_evidence_only());
    assert!(!policy(&format!("[{read},{run}]")).is_evidence_only());
    // Nothing is required: the agent's word is all there is.
    assert!(!policy(&format!("[{optional}]")).is_evidence_only());
    assert!(!policy("[]").is_evidence_only());
}
