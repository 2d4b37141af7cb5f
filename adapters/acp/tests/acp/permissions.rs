//! What the agent asks, and is answered.

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_testkit::model_server::{Script, Turn};
use serde_json::{Value, json};

use crate::rig::{GUARDED, Real, RecordingSink, Rig};

fn config(permissions: &Value) -> Value {
    let mut config = Real::Claude.config();
    // The mode in which it asks.
    config["mode"] = json!("default");
    config["permissions"] = permissions.clone();
    config
}

fn writing(rig: Rig, path: &std::path::Path) -> Rig {
    let input = json!({"file_path": path, "content": "x"});
    let script = Script::new().then(Turn::tool("Write", &input)).forever(Turn::text("I see."));
    rig.with_script(script)
}

#[tokio::test]
async fn what_is_allowed_is_done() {
    let rig = Rig::new(Script::new());
    let file = rig.workspace().join("free.txt");
    let rig = writing(rig, &file);
    let sink = RecordingSink::new();
    let report = rig.run(config(&json!("allow")), &sink).await.unwrap();
    assert!(file.exists() && report.denied.is_empty(), "{report:?}");
    let asked = |e: &Event| matches!(e, Event::Raw { line } if line.contains("request_permission"));
    assert!(sink.events().iter().any(asked), "it did not ask");
}

#[tokio::test]
async fn a_refusal_returns_to_the_model_and_is_reported() {
    for (permissions, folder) in
        [(json!("reject"), "."), (json!({"edit": "reject"}), "."), (json!("allow"), GUARDED)]
    {
        let rig = Rig::new(Script::new());
        let file = rig.workspace().join(folder).join("a.txt");
        let rig = writing(rig, &file);
        let sink = RecordingSink::new();
        let report = rig.run(config(&permissions), &sink).await.unwrap();
        assert!(!file.exists(), "{permissions}");
        assert_eq!(report.final_text.as_deref(), Some("I see."));
        assert!(report.denied.len() == 1 && report.denied[0].contains("a.txt"), "{report:?}");
        // The model was told.
        let requests = rig.server.main_requests();
        let asked = requests.last().unwrap().body["messages"].to_string();
        assert!(asked.contains("refused"), "{asked}");
        let failed = |e: &Event| matches!(e, Event::ToolResult { is_error: true, .. });
        assert!(sink.events().iter().any(failed));
    }
}
