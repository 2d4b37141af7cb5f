//! The example of a detector, as it is built from its own workspace.

use std::fs;

use ralph_orchestrator_contract::{ClaimKind, View};
use serde_json::json;

use crate::built::PLAN;
use crate::rig::{BOTH, Rig};

#[tokio::test]
async fn the_plan_decides_in_both_isolations() {
    for isolation in BOTH {
        let rig = Rig::new(PLAN.copy(), isolation);
        let detector = rig.detector(json!({"file": "doc/plan.md"})).await.unwrap();
        assert!(!detector.observes(), "no event has to be sent to it");
        assert!(detector.instructions().contains("doc/plan.md"));
        let workspace = tempfile::tempdir().unwrap();
        let view = || View {
            workspace: workspace.path(),
            prompt_path: None,
            prompt: None,
            final_text: None,
            given: None,
        };
        assert!(detector.inspect(view()).await.claims.is_empty(), "{isolation:?}: no plan");

        fs::create_dir(workspace.path().join("doc")).unwrap();
        let plan = workspace.path().join("doc/plan.md");
        fs::write(&plan, "- [x] one\n- [ ] two\n").unwrap();
        assert!(detector.inspect(view()).await.claims.is_empty(), "{isolation:?}: a box is open");

        fs::write(&plan, "- [x] one\n- [x] two\n").unwrap();
        let found = detector.inspect(view()).await;
        let [claim] = found.claims.as_slice() else { panic!("{isolation:?}: {found:?}") };
        assert_eq!(claim.kind, ClaimKind::Complete);
        assert_eq!(claim.text, "all 2 boxes in doc/plan.md are checked");
        assert_eq!(detector.strip_claims("the same").await, "the same");
    }
}

#[tokio::test]
async fn mistakes_in_its_table_are_named() {
    for isolation in BOTH {
        let rig = Rig::new(PLAN.copy(), isolation);
        let Err(error) = rig.detector(json!({"file": "/etc/plan"})).await else { panic!() };
        assert_eq!(
            (error.key, &*error.message),
            (vec!["file".to_owned()], "has to be relative to the workspace")
        );
        let Err(error) = rig.detector(json!({"flie": "x"})).await else { panic!() };
        assert_eq!(error.unknown_key.as_deref(), Some("flie"));
    }
}
