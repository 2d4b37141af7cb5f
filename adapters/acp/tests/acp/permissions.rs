//! What the agent asks, and is answered.

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_testkit::model_server::{Script, Turn};
use serde_json::{Value, json};

use crate::harness::{GUARDED, Harness, Real, RecordingSink};

fn config(permissions: &Value) -> Value {
    let mut config = Real::Claude.config();
    // The mode in which it asks.
    config["mode"] = json!("default");
    config["permissions"] = permissions.clone();
    config
}

fn writing(harness: Harness, path: &std::path::Path) -> Harness {
    let input = json!({"file_path": path, "content": "x"});
    let script = Script::new().then(Turn::tool("Write", &input)).forever(Turn::text("I see."));
    harness.with_script(script)
}

#[tokio::test]
async fn what_is_allowed_is_done() {
    let harness = Harness::new(Script::new());
    let file = harness.workspace().join("free.txt");
    let harness = writing(harness, &file);
    let sink = RecordingSink::new();
    let report = harness.run(config(&json!("allow")), &sink).await.unwrap();
    assert!(file.exists() && report.denied.is_empty(), "{report:?}");
    let asked = |e: &Event| matches!(e, Event::Raw { line } if line.contains("request_permission"));
    assert!(sink.events().iter().any(asked), "it did not ask");
}

#[tokio::test]
async fn a_refusal_returns_to_the_model_and_is_reported() {
    for (permissions, folder) in
        [(json!("reject"), "."), (json!({"edit": "reject"}), "."), (json!("allow"), GUARDED)]
    {
        let harness = Harness::new(Script::new());
        let file = harness.workspace().join(folder).join("a.txt");
        let harness = writing(harness, &file);
        let sink = RecordingSink::new();
        let report = harness.run(config(&permissions), &sink).await.unwrap();
        assert!(!file.exists(), "{permissions}");
        assert_eq!(report.final_text.as_deref(), Some("I see."));
        assert!(report.denied.len() == 1 && report.denied[0].contains("a.txt"), "{report:?}");
        // The model was told.
        let requests = harness.server.main_requests();
        let asked = requests.last().unwrap().body["messages"].to_string();
        assert!(asked.contains("refused"), "{asked}");
        let failed = |e: &Event| matches!(e, Event::ToolResult { is_error: true, .. });
        assert!(sink.events().iter().any(failed));
    }
}
