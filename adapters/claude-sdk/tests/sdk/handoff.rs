//! Sessions that are handed over before their context is full.

use ralph_orchestrator_contract::{ErrorClass, Tokens};
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::{Value, json};

use crate::harness::{Harness, RecordingSink, contexts, notes};

/// The window of the model is 200 000 tokens.
fn config() -> Value {
    json!({"model": "claude-haiku-4-5"})
}

/// A call of a tool by a model that has read so much.
fn reads(tokens: u64) -> Turn {
    calls("echo tick", tokens)
}

/// The same where the session is handed over: the tool does not end by itself, so the agent asks for nothing
/// more before it is interrupted.
fn fills(tokens: u64) -> Turn {
    calls("tail -f /dev/null", tokens)
}

fn calls(command: &str, tokens: u64) -> Turn {
    let usage = Tokens { input: 500, cache_read: tokens - 500, output: 200, cache_write: 0 };
    Turn::tool("Bash", &json!({"command": command, "description": "tick"})).usage(usage)
}

const NOTES: &str = "A is done. B is next. <promise>COMPLETE: not really</promise>";

#[tokio::test]
async fn not_below_the_share() {
    let harness = Harness::new(Script::new().then(reads(139_999)).then(Turn::text("done")));
    let sink = RecordingSink::new();
    let report = harness.run(config(), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("done"));
    assert_eq!(harness.server.main_requests().len(), 2);
    assert!(notes(&sink).is_empty() && !sink.has_warning("handed over"));
    assert!(contexts(&sink).contains(&(139_999, Some(200_000))), "{:?}", contexts(&sink));
}

#[tokio::test]
async fn at_the_share_notes_are_written_and_claim_nothing() {
    let script = Script::new().then(reads(60_000)).then(fills(140_000)).then(Turn::text(NOTES));
    let harness = Harness::new(script);
    let sink = RecordingSink::new();
    let report = harness.run(config(), &sink).await.unwrap();
    assert_eq!(notes(&sink), [NOTES]);
    assert_eq!(report.final_text, None, "notes are no claim");
    assert!(sink.has_warning("70.0 % full (140000 of 200000 tokens)"));
    let requests = harness.server.main_requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[2].body["messages"].to_string().contains("your notes"));
    assert_eq!(report.usage.tokens, Some(harness.server.served()));
    assert_eq!(report.exit.as_deref(), Some("exit 0"));
    assert!(sink.preview_requests().is_empty(), "a session that is handed over is not judged");
}

#[tokio::test]
async fn at_another_share_or_never() {
    for (at, count) in [(json!(0.5), 1), (json!(0.51), 0), (json!("none"), 0)] {
        let first = if count > 0 { fills(100_000) } else { reads(100_000) };
        let harness = Harness::new(Script::new().then(first).then(Turn::text("x")));
        let sink = RecordingSink::new();
        let config = json!({"model": "claude-haiku-4-5", "handoff_at": at});
        harness.run(config, &sink).await.unwrap();
        assert_eq!(notes(&sink).len(), count, "{at}");
    }
}

#[tokio::test]
async fn tools_are_refused_while_notes_are_written() {
    let script =
        Script::new().then(fills(150_000)).then(reads(150_000)).then(Turn::text("B is next."));
    let harness = Harness::new(script);
    let sink = RecordingSink::new();
    harness.run(config(), &sink).await.unwrap();
    assert_eq!(notes(&sink), ["B is next."]);
    let requests = harness.server.main_requests();
    assert!(requests[2].body["messages"].to_string().contains("Use no tools"));
}

#[tokio::test]
async fn a_claim_by_tool_is_judged_first() {
    let usage = Tokens { input: 150_000, output: 10, ..Tokens::default() };
    let claim = json!({"message": "all"});
    let script = Script::new()
        .then(Turn::tool("mcp__ralph__claim_complete", &claim).usage(usage))
        .then(Turn::text("That is all."));
    let harness = Harness::new(script);
    let accepted = ralph_orchestrator_contract::ValidationPreview::Accepted;
    let sink = RecordingSink::with_previews([Some(accepted)]);
    let report = harness.run(config(), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("That is all."));
    assert!(notes(&sink).is_empty());
    // What was accepted is not judged again when nothing was done since.
    assert_eq!(sink.preview_requests(), [None]);
}

#[tokio::test]
async fn a_provider_that_fails_at_the_notes_is_reported() {
    let script = Script::new().then(fills(150_000)).forever(Reply::error(429, "Too many requests"));
    let harness = Harness::new(script);
    let sink = RecordingSink::new();
    let error = harness.run(config(), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::RateLimited { until_ms: None }, "{error}");
    assert!(sink.has_warning("no notes") && notes(&sink).is_empty());
}

#[tokio::test]
async fn cancelled_while_the_notes_are_written() {
    let stalled = Turn::text("A is").fault(Fault::Stall);
    let harness = Harness::new(Script::new().then(fills(150_000)).forever(stalled));
    let sink = RecordingSink::new();
    let cancel = async {
        harness.wait_until_stalled().await;
        sink.cancel(ralph_orchestrator_contract::CancelReason::Timeout);
    };
    let (result, ()) = tokio::join!(harness.run(config(), &sink), cancel);
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    assert!(notes(&sink).is_empty());
    assert!(error.report.usage.cost.is_some(), "the call before counts");
}
