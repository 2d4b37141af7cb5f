//! Iterations that end badly, by the provider's fault, as far as it is not the same for every adapter.

use ralph_orchestrator_testkit::model_server::{Reply, Script, Turn};

use crate::harness::{Harness, Real};

#[tokio::test]
async fn a_provider_that_fails_is_overloaded() {
    for real in Real::ALL {
        let harness = Harness::new(Script::new().forever(Reply::error(500, "no")));
        let error = harness.fail(real.config()).await;
        assert_eq!(error.class.word(), "overloaded", "{real:?}: {error}");
        assert!(error.report.session.is_some(), "{real:?}");
    }
}

#[tokio::test]
async fn who_is_not_logged_in_gets_advice() {
    let harness = Harness::new(Script::new()).without_env("ANTHROPIC_API_KEY");
    let error = harness.fail(Real::Claude.config()).await;
    assert_eq!(error.class.word(), "unauthenticated", "{error}");
}

#[tokio::test]
async fn a_full_answer_and_a_refusal_are_no_good_ending() {
    let turn = |reason: &str| Turn::text("half a").stop_reason(reason);
    let harness = Harness::new(Script::new().forever(turn("refusal")));
    let error = harness.fail(Real::Claude.config()).await;
    assert_eq!(error.class.word(), "invalid_request", "{error}");
    let harness = Harness::new(Script::new().forever(turn("max_tokens")));
    let error = harness.fail(Real::Claude.config()).await;
    assert_eq!(error.class.word(), "agent_limit", "{error}");
}
