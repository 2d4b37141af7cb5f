//! Iterations that the real agent ends badly.

use std::net::{Ipv4Addr, TcpListener};

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event};
use ralph_orchestrator_testkit::model_server::{Reply, Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

/// The end of an iteration in which every request is answered like this.
async fn always(reply: Reply) -> AgentError {
    let error = Harness::new(Script::new().forever(reply)).fail(json!({})).await;
    assert_eq!(error.report.final_text, None, "an error's text claims nothing");
    assert!(error.report.session.is_some());
    error
}

#[tokio::test]
async fn rate_limited_for_ever() {
    let harness = Harness::new(Script::new().forever(Reply::error(429, "Too many requests")));
    let sink = RecordingSink::new();
    let error = harness.run(json!({}), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::RateLimited { until_ms: None }, "{error}");
    assert_eq!(harness.server.main_requests().len(), 2, "back-off is the orchestrator's");
    assert!(sink.events().iter().any(|event| matches!(event, Event::Waiting { .. })));
}

/// What a used-up account is answered.
fn used_up() -> Reply {
    Reply::error(429, "This request would exceed your account's rate limit.")
        .header("retry-after", "3600")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", "4102444800")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
}

#[tokio::test]
async fn a_used_up_account_is_not_asked_again() {
    let harness = Harness::new(Script::new().forever(used_up()));
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::RateLimited { until_ms: None }, "{error}");
    assert_eq!(harness.server.main_requests().len(), 1);
}

#[tokio::test]
async fn a_used_up_subscription_says_until_when() {
    // Only a login is told.
    let harness = Harness::new(Script::new().forever(used_up()))
        .without_env("ANTHROPIC_API_KEY")
        .env("CLAUDE_CODE_OAUTH_TOKEN", "dummy");
    let error = harness.fail(json!({})).await;
    let until_ms = Some(4_102_444_800_000);
    assert_eq!(error.class, ErrorClass::RateLimited { until_ms }, "{error}");
}

#[tokio::test]
async fn overloaded_for_ever() {
    assert_eq!(always(Reply::error(529, "Overloaded")).await.class, ErrorClass::Overloaded);
}

#[tokio::test]
async fn broken_for_ever() {
    let error = always(Reply::error(500, "Internal server error")).await;
    assert_eq!(error.class, ErrorClass::Overloaded);
}

#[tokio::test]
async fn a_refused_key() {
    let error = always(Reply::error(401, "invalid x-api-key")).await;
    assert_eq!(error.class, ErrorClass::Unauthenticated);
    assert!(error.message.contains("ANTHROPIC_API_KEY"), "{error}");
}

#[tokio::test]
async fn no_key() {
    let harness = Harness::new(Script::new()).without_env("ANTHROPIC_API_KEY");
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Unauthenticated, "{error}");
    assert!(harness.server.main_requests().is_empty());
}

#[tokio::test]
async fn no_credit() {
    let message = "Your credit balance is too low to access the Anthropic API.";
    let error = always(Reply::error(400, message)).await;
    assert_eq!(error.class, ErrorClass::Billing, "{error}");
}

#[tokio::test]
async fn an_unknown_model() {
    let error = always(Reply::error(404, "model: claude-none")).await;
    assert_eq!(error.class, ErrorClass::NotFound, "{error}");
    assert!(error.message.contains("[agent.config]"), "{error}");
}

#[tokio::test]
async fn too_long_a_prompt() {
    let message = "prompt is too long: 214000 tokens > 200000 maximum";
    let error = always(Reply::error(400, message)).await;
    assert_eq!(error.class, ErrorClass::ContextExceeded, "{error}");
}

#[tokio::test]
async fn a_refusal() {
    let harness = Harness::new(Script::new().forever(Turn::text("no").stop_reason("refusal")));
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::InvalidRequest, "{error}");
}

#[tokio::test]
async fn too_many_turns() {
    let tick = json!({"command": "echo tick", "description": "tick"});
    let harness = Harness::new(Script::new().forever(Turn::tool("Bash", &tick)));
    let error = harness.fail(json!({"max_turns": 2})).await;
    assert_eq!(error.class, ErrorClass::AgentLimit, "{error}");
    assert_eq!(error.report.usage.tokens, Some(harness.server.served()));
}

#[tokio::test]
async fn nobody_listens() {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("http://127.0.0.1:{port}");
    let error = Harness::new(Script::new()).env("ANTHROPIC_BASE_URL", &url).fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Overloaded, "{error}");
}

#[tokio::test]
async fn nobody_answers_in_time() {
    let harness = Harness::new(Script::new().forever(Reply::Hang)).env("API_TIMEOUT_MS", "1000");
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Overloaded, "{error}");
}

#[tokio::test]
async fn an_argument_that_it_does_not_know() {
    let error = Harness::new(Script::new()).fail(json!({"args": ["--no-such-option"]})).await;
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("no-such-option"), "{error}");
    assert_eq!(error.report.exit.as_deref(), Some("exit 1"));
}

#[tokio::test]
async fn root_outside_a_sandbox() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    for sandbox in ["", "yes"] {
        let harness = Harness::new(Script::new()).env("IS_SANDBOX", sandbox);
        let error = harness.fail(json!({})).await;
        assert_eq!(error.class, ErrorClass::InvalidRequest);
        assert!(error.message.contains("set = { IS_SANDBOX = \"1\" }"), "{error}");
        assert!(harness.server.requests().is_empty(), "nothing was spent");
        let checked = harness.agent(json!({})).check(&harness.env).await.unwrap_err();
        assert_eq!(checked.message, error.message);
        assert!(
            harness.agent(json!({"permission_mode": "plan"})).check(&harness.env).await.is_ok()
        );
    }
}
