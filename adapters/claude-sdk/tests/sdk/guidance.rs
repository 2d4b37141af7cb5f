//! Guidance that people send while the session goes on.

use ralph_orchestrator_contract::EventSink as _;
use ralph_orchestrator_testkit::model_server::{Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

fn bash(command: &str) -> Turn {
    Turn::tool("Bash", &json!({"command": command, "description": "a command"}))
}

#[tokio::test]
async fn it_reaches_the_model_with_the_answer_of_the_next_tool() {
    let harness = Harness::new(Script::new().then(bash("echo one")).then(Turn::text("The end.")));
    let sink = RecordingSink::new();
    sink.send_guidance("a", "look at the parser first");
    sink.send_guidance("b", "and leave the lexer alone");
    let report = harness.run(json!({}), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("The end."));
    let requests = harness.server.main_requests();
    assert_eq!(requests.len(), 2);
    let given = requests[1].body["messages"].to_string();
    for part in ["Guidance from a human:", "look at the parser first", "leave the lexer alone"] {
        assert_eq!(given.matches(part).count(), 1, "{part}: {given}");
    }
    assert!(sink.take_guidance().is_empty());
}

#[tokio::test]
async fn without_a_further_tool_the_session_goes_on_with_it() {
    let script = Script::new().then(Turn::text("Done.")).then(Turn::text("Now really."));
    let harness = Harness::new(script);
    let sink = RecordingSink::new();
    sink.send_guidance("a", "one more thing");
    let report = harness.run(json!({}), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("Now really."));
    let requests = harness.server.main_requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].body["messages"].to_string().contains("one more thing"));
    // The first end was none, so nothing was validated for it.
    assert_eq!(sink.preview_requests(), [Some("Now really.".to_owned())]);
}
