//! Claims that are validated while the session goes on.

use ralph_orchestrator_contract::{Event, ValidationPreview};
use ralph_orchestrator_testkit::model_server::{Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink, answers};

fn rejected(reason: &str) -> ValidationPreview {
    ValidationPreview::Rejected { reasons: vec![reason.to_owned(), "and more".to_owned()] }
}

#[tokio::test]
async fn a_rejected_claim_is_repaired_in_the_same_session() {
    let harness = Harness::new(Script::new());
    let path = harness.workspace().join("hello.txt");
    let write = json!({"file_path": path, "content": "hello\n"});
    let script = Script::new()
        .then(Turn::text("<promise>COMPLETE: a</promise>"))
        .then(Turn::tool("Write", &write))
        .then(Turn::text("<promise>COMPLETE: b</promise>"));
    let harness = harness.with_script(script);
    let sink = RecordingSink::with_previews([
        Some(rejected("hello.txt is missing")),
        Some(ValidationPreview::Accepted),
    ]);
    let report = harness.run(json!({}), &sink).await.unwrap();
    assert!(path.exists());
    assert_eq!(report.final_text.as_deref(), Some("<promise>COMPLETE: b</promise>"));
    let text = |claim: &str| Some(format!("<promise>COMPLETE: {claim}</promise>"));
    assert_eq!(sink.preview_requests(), [text("a"), text("b")]);
    let requests = harness.server.main_requests();
    assert_eq!(requests.len(), 3);
    let reported = requests[1].body["messages"].to_string();
    for part in ["checked and REJECTED", "hello.txt is missing", "and more"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    let sessions = sink.events().iter().filter(|e| matches!(e, Event::Session { .. })).count();
    assert_eq!(sessions, 1);
    assert_eq!(report.usage.tokens, Some(harness.server.served()));
}

#[tokio::test]
async fn rejections_are_bounded() {
    for (config, judged) in [
        (json!({}), 3),
        (json!({"max_in_session_rejections": 1}), 1),
        (json!({"max_in_session_rejections": 0}), 0),
        (json!({"validate_in_session": false}), 0),
    ] {
        let harness = Harness::new(Script::new().forever(Turn::text("done")));
        let sink = RecordingSink::with_previews((0..9).map(|_| Some(rejected("no"))));
        let report = harness.run(config.clone(), &sink).await.unwrap();
        assert_eq!(report.final_text.as_deref(), Some("done"));
        assert_eq!(sink.preview_requests().len(), judged, "{config}");
        assert_eq!(harness.server.main_requests().len(), judged + 1, "{config}");
    }
}

#[tokio::test]
async fn what_cannot_be_judged_is_left_to_the_end() {
    for judgement in
        [ValidationPreview::NoClaim, ValidationPreview::NotNow { why: "busy".to_owned() }]
    {
        let harness = Harness::new(Script::new().then(Turn::text("done")));
        let sink = RecordingSink::with_previews([Some(judgement)]);
        let report = harness.run(json!({}), &sink).await.unwrap();
        assert_eq!(report.final_text.as_deref(), Some("done"));
        assert_eq!(sink.preview_requests().len(), 1);
    }
}

#[tokio::test]
async fn a_claim_by_tool_is_answered_with_the_judgement() {
    let claim = |text: &str| Turn::tool("mcp__ralph__claim_complete", &json!({"message": text}));
    let bash = json!({"command": "echo repaired", "description": "repair"});
    let script = Script::new()
        .then(claim("first"))
        .then(claim("second"))
        .then(Turn::tool("Bash", &bash))
        .then(Turn::text("The end."));
    let harness = Harness::new(script);
    let sink = RecordingSink::with_previews([
        Some(rejected("no tests")),
        Some(ValidationPreview::Accepted),
        Some(ValidationPreview::Accepted),
    ]);
    harness.run(json!({}), &sink).await.unwrap();
    let requests = harness.server.main_requests();
    assert!(answers(&requests[1].body).contains("no tests"));
    assert!(answers(&requests[2].body).contains("stands"));
    // It did something after it was accepted, so it is judged once more.
    assert_eq!(sink.preview_requests(), [None, None, Some("The end.".to_owned())]);
    let claims = sink.events().iter().filter(|e| matches!(e, Event::Claim { .. })).count();
    assert_eq!(claims, 2);
}
