//! Iterations that the real agent ends badly: classed as those of `claude -p`.

use ralph_orchestrator_contract::{ErrorClass, Event};
use ralph_orchestrator_testkit::model_server::{Reply, Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

#[tokio::test]
async fn every_failure_of_the_provider_has_its_class() {
    let too_long = "prompt is too long: 214000 tokens > 200000 maximum";
    let no_credit = "Your credit balance is too low to access the Anthropic API.";
    let refusal = Turn::text("no").stop_reason("refusal");
    for (reply, class) in [
        (Reply::error(429, "Too many requests"), ErrorClass::RateLimited { until_ms: None }),
        (Reply::error(529, "Overloaded"), ErrorClass::Overloaded),
        (Reply::error(500, "Internal server error"), ErrorClass::Overloaded),
        (Reply::error(401, "invalid x-api-key"), ErrorClass::Unauthenticated),
        (Reply::error(400, no_credit), ErrorClass::Billing),
        (Reply::error(404, "model: claude-none"), ErrorClass::NotFound),
        (Reply::error(400, too_long), ErrorClass::ContextExceeded),
        (refusal.into(), ErrorClass::InvalidRequest),
    ] {
        let harness = Harness::new(Script::new().forever(reply));
        let sink = RecordingSink::new();
        let error = harness.run(json!({}), &sink).await.unwrap_err();
        assert_eq!(error.class, class, "{error}");
        assert_eq!(error.report.final_text, None, "an error's text claims nothing");
        assert!(error.report.session.is_some() && error.report.exit.is_some());
        assert!(harness.server.main_requests().len() <= 2, "back-off is the orchestrator's");
        let judged = sink.preview_requests();
        assert!(judged.is_empty(), "a failure is no claim: {judged:?}");
    }
}

#[tokio::test]
async fn a_used_up_subscription_says_until_when() {
    let used_up = Reply::error(429, "This request would exceed your account's rate limit.")
        .header("retry-after", "3600")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", "4102444800")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour");
    let harness = Harness::new(Script::new().forever(used_up))
        .without_env("ANTHROPIC_API_KEY")
        .env("CLAUDE_CODE_OAUTH_TOKEN", "dummy");
    let error = harness.fail(json!({})).await;
    let until_ms = Some(4_102_444_800_000);
    assert_eq!(error.class, ErrorClass::RateLimited { until_ms }, "{error}");
}

#[tokio::test]
async fn without_a_key_and_without_a_provider() {
    let error = Harness::new(Script::new()).without_env("ANTHROPIC_API_KEY").fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Unauthenticated, "{error}");
    assert!(error.message.contains("ANTHROPIC_API_KEY"), "{error}");
    // The discard port: nobody listens.
    let nowhere = Harness::new(Script::new()).env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let error = nowhere.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Overloaded, "{error}");
}

#[tokio::test]
async fn too_many_turns_are_paid_for() {
    let tick = json!({"command": "echo tick", "description": "tick"});
    let harness = Harness::new(Script::new().forever(Turn::tool("Bash", &tick)));
    let sink = RecordingSink::new();
    let error = harness.run(json!({"max_turns": 2}), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::AgentLimit, "{error}");
    assert_eq!(error.report.usage.tokens, Some(harness.server.served()));
    assert!(sink.events().iter().any(|event| matches!(event, Event::ToolResult { .. })));
}

#[tokio::test]
async fn an_argument_that_it_does_not_know() {
    let error = Harness::new(Script::new()).fail(json!({"args": ["--no-such-option"]})).await;
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("no-such-option"), "{error}");
}
