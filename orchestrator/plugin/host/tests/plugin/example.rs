//! The example of a detector, as it is built from its own workspace.

use std::fs;

use ralph_orchestrator_contract::{ClaimKind, DetectorInput, FactoryError};
use serde_json::json;

use crate::built::PLAN;
use crate::harness::PluginHarness;

#[tokio::test]
async fn the_plan_decides() {
    let harness = PluginHarness::new(PLAN.copy());
    let detector = harness.detector(json!({"file": "doc/plan.md"})).await.unwrap();
    assert!(!detector.observes(), "no event has to be sent to it");
    assert!(detector.instructions().contains("doc/plan.md"));
    let workspace = tempfile::tempdir().unwrap();
    let input = || DetectorInput {
        workspace: workspace.path(),
        prompt_path: None,
        prompt: None,
        final_text: None,
        given: None,
    };
    assert!(detector.inspect(input()).await.claims.is_empty(), "no plan");

    fs::create_dir(workspace.path().join("doc")).unwrap();
    let plan = workspace.path().join("doc/plan.md");
    fs::write(&plan, "- [x] one\n- [ ] two\n").unwrap();
    assert!(detector.inspect(input()).await.claims.is_empty(), "a box is open");

    fs::write(&plan, "- [x] one\n- [x] two\n").unwrap();
    let found = detector.inspect(input()).await;
    let [claim] = found.claims.as_slice() else { panic!("{found:?}") };
    assert_eq!(claim.kind, ClaimKind::Complete);
    assert_eq!(claim.text, "all 2 boxes in doc/plan.md are checked");
    assert_eq!(detector.strip_claims("the same").await, "the same");
}

#[tokio::test]
async fn mistakes_in_its_table_are_named() {
    let harness = PluginHarness::new(PLAN.copy());
    let Err(FactoryError::Table(error)) = harness.detector(json!({"file": "/etc/plan"})).await
    else {
        panic!()
    };
    assert_eq!(
        (error.key, &*error.message),
        (vec!["file".to_owned()], "has to be relative to the workspace")
    );
    let Err(FactoryError::Table(error)) = harness.detector(json!({"flie": "x"})).await else {
        panic!()
    };
    assert_eq!(error.unknown_key.as_deref(), Some("flie"));
}
