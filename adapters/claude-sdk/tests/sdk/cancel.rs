//! Iterations that the orchestrator ends, as far as it is not the same for every adapter.

use ralph_orchestrator_contract::{CancelReason, ErrorClass, Event, Tokens};
use ralph_orchestrator_testkit::model_server::{Fault, Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

#[tokio::test]
async fn in_the_middle_of_a_message() {
    let usage = Tokens { input: 150_000, output: 500, ..Tokens::default() };
    let slow = Turn::text("slow words").usage(usage).fault(Fault::Stall);
    let error =
        Harness::new(Script::new()).cancelled_in(slow, json!({}), &RecordingSink::new()).await;
    // The agent's own figure leaves the interrupted call out; nothing is not what it has cost.
    assert_eq!(error.report.usage.cost, None);
    let exit = error.report.exit.unwrap_or_default();
    assert!(exit.starts_with("exit "), "it was told by signals: {exit}");
}

#[tokio::test]
async fn while_a_tool_runs() {
    let usage = Tokens { input: 145_000, output: 30, ..Tokens::default() };
    let error = Harness::new(Script::new())
        .cancelled_in_tool(json!({}), usage, &RecordingSink::new())
        .await;
    // The call that led to the tool had ended, so it is counted.
    assert_eq!(error.report.usage.cost.unwrap().dollars(), 0.72575);
}

#[tokio::test]
async fn while_its_claim_is_judged() {
    let claim = json!({"message": "all"});
    for turn in [Turn::text("done"), Turn::tool("mcp__ralph__claim_complete", &claim)] {
        let harness = Harness::new(Script::new().forever(turn));
        let sink = RecordingSink::with_previews([None]);
        let cancel = async {
            sink.wait_for_preview_request().await;
            sink.cancel(CancelReason::Signal);
        };
        let (result, ()) = tokio::join!(harness.run(json!({}), &sink), cancel);
        let error = result.unwrap_err();
        assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    }
}

#[tokio::test]
async fn after_the_result_is_too_late_to_undo_it() {
    let harness = Harness::new(Script::new().then(Turn::text("finished")));
    let is_result = |event: &Event| matches!(event, Event::Raw { line } if line.starts_with("{\"type\":\"result\""));
    // The line is handed over before it is read, and the end is wanted from then on.
    let report = harness.run(json!({}), &RecordingSink::cancelling_at(is_result)).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("finished"));
}
