//! Iterations that the orchestrator ends, as far as it is not the same for every adapter.

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_testkit::model_server::{Reply, Script};

use crate::harness::{Harness, Real, RecordingSink};

async fn is_asked_in_its_own_words(real: Real) {
    let sink = RecordingSink::new();
    Harness::new(Script::new()).cancelled_in(Reply::Hang, real.config(), &sink).await;
    let reported =
        |event: &Event| matches!(event, Event::Raw { line } if line.contains("\"cancelled\""));
    assert!(sink.events().iter().any(reported), "{:?}", sink.events());
}

#[tokio::test]
async fn claude_agent_acp_is_asked_in_its_own_words() {
    is_asked_in_its_own_words(Real::Claude).await;
}

#[tokio::test]
async fn codex_acp_is_asked_in_its_own_words() {
    is_asked_in_its_own_words(Real::Codex).await;
}
