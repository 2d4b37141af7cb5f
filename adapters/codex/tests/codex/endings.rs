//! Iterations that the real agent ends badly.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Tokens};
use ralph_orchestrator_testkit::agent_env::codex_config;
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

/// The end of an iteration in which every request is answered like this.
async fn always(reply: Reply) -> AgentError {
    let error = Harness::new(Script::new().forever(reply)).fail(json!({})).await;
    assert_eq!(error.report.final_text, None, "an error's text claims nothing");
    assert!(error.report.session.is_some());
    assert_eq!(error.report.exit.as_deref(), Some("exit 1"));
    error
}

#[tokio::test]
async fn rate_limited_for_ever() {
    let error = always(Reply::error(429, "Too many requests")).await;
    assert_eq!(error.class, ErrorClass::RateLimited { until_ms: None }, "{error}");
    let harness = Harness::new(Script::new().forever(Reply::failed(
        "rate_limit_exceeded",
        "Rate limit reached for x. Please try again in 1s.",
    )));
    let sink = RecordingSink::new();
    let error = harness.run(json!({}), &sink).await.unwrap_err();
    assert!(matches!(error.class, ErrorClass::RateLimited { until_ms: Some(_) }), "{error}");
    assert!(sink.events().iter().any(|event| matches!(event, Event::Waiting { .. })));
}

#[tokio::test]
async fn a_used_up_account_says_until_when() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for ahead in [Duration::from_secs(3600), Duration::from_secs(5 * 86_400)] {
        let resets = (now + ahead).as_secs();
        let limit = Reply::error(429, "The usage limit has been reached")
            .kind("usage_limit_reached")
            .detail("plan_type", "plus")
            .detail("resets_at", resets);
        let error = always(limit).await;
        let ErrorClass::RateLimited { until_ms: Some(until) } = error.class else {
            panic!("{error:?}")
        };
        // Said in whole minutes, and never too early.
        let late = i128::from(until) - i128::from(resets) * 1000;
        assert!((0..=60_000).contains(&late), "{late} ms late: {error}");
    }
}

#[tokio::test]
async fn other_refusals_have_their_classes() {
    for (reply, class, says) in [
        (Reply::error(401, "bad key"), "unauthenticated", "codex login"),
        (Reply::failed("insufficient_quota", "quota"), "billing", "buy credit"),
        (Reply::failed("context_length_exceeded", "long"), "context_exceeded", "shorten"),
        (Reply::error(404, "The model `x` does not exist"), "not_found", "`x`"),
        (Reply::error(400, "no").kind("invalid_request_error"), "invalid_request", "no"),
        (Reply::error(500, "oops"), "overloaded", ""),
        (Reply::error(503, "oops"), "overloaded", ""),
        (Reply::failed("server_is_overloaded", "oops"), "overloaded", ""),
        (Reply::Drop, "overloaded", "disconnected"),
    ] {
        let error = always(reply.clone()).await;
        assert_eq!(error.class.word(), class, "{reply:?}: {error}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_failed_turn_has_cost_what_went_before() {
    let usage = Tokens { input: 1000, output: 10, cache_read: 3, cache_write: 0 };
    let script = Script::new()
        .then(Turn::shell("true").usage(usage))
        .forever(Reply::failed("context_length_exceeded", "long"));
    let error = Harness::new(script).fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::ContextExceeded);
    assert_eq!(error.report.usage.tokens, Some(usage));
}

#[tokio::test]
async fn nobody_goes_on_in_time() {
    let harness = Harness::new(Script::new().forever(Turn::text("half").fault(Fault::Stall)));
    codex_config(&harness.home(), &harness.server.base_url(), Duration::from_millis(300));
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Overloaded, "{error}");
}

#[tokio::test]
async fn no_key() {
    let error = Harness::new(Script::new()).without_env("LOOP_KEY").fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Unauthenticated, "{error}");
}

#[tokio::test]
async fn arguments_and_configurations_that_it_does_not_know() {
    let error = Harness::new(Script::new()).fail(json!({"args": ["--no-such-option"]})).await;
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("no-such-option"), "{error}");
    assert_eq!(error.report.exit.as_deref(), Some("exit 2"));
    let harness = Harness::new(Script::new());
    std::fs::write(harness.home().join(".codex/config.toml"), "model = [").unwrap();
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Crashed, "{error}");
    assert!(error.message.contains("config.toml"), "{error}");
}

#[tokio::test]
async fn prompts_that_it_does_not_take_are_not_given() {
    let harness = Harness::new(Script::new());
    for prompt in [&b""[..], b" \n", b"caf\xe9"] {
        let error = harness
            .run_task(json!({}), harness.task(prompt), &RecordingSink::new())
            .await
            .unwrap_err();
        assert_eq!(error.class, ErrorClass::InvalidRequest);
    }
    assert!(harness.server.requests().is_empty());
}
