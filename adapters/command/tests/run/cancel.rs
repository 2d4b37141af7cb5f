//! Asked to end, at every phase.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event};
use serde_json::json;

use crate::support::{Place, Sink, Then};

fn is_text(event: &Event) -> bool {
    matches!(event, Event::Text { .. })
}

fn assert_cancelled(error: &AgentError) {
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    assert_eq!(error.report.final_text, None);
}

#[tokio::test]
async fn before_the_start_nothing_is_started() {
    let place = Place::new();
    let sink = Sink::new();
    sink.cancel();
    assert_cancelled(&place.shell("touch started", &sink).await.unwrap_err());
    assert!(!place.workspace.join("started").exists());
}

#[tokio::test]
async fn while_it_is_silent() {
    let place = Place::new();
    let sink = Sink::with(|event| if is_text(event) { Then::Cancel } else { Then::GoOn });
    let error = place.shell("echo ready; exec sleep 1000", &sink).await.unwrap_err();
    assert_cancelled(&error);
    assert!(error.report.exit.unwrap().starts_with("signal 2"), "the interrupt was enough");
}

#[tokio::test]
async fn while_it_floods_and_the_sink_is_full() {
    let place = Place::new();
    let sink = Sink::with(|event| if is_text(event) { Then::Block } else { Then::GoOn });
    assert_cancelled(&place.shell("yes", &sink).await.unwrap_err());
}

#[tokio::test]
async fn when_it_has_closed_its_output() {
    let place = Place::new();
    let sink = Sink::new();
    let script = "exec >&- 2>&-; touch closed; sleep 1000";
    let closed = place.workspace.join("closed");
    let asked = async {
        while !closed.exists() {
            tokio::task::yield_now().await;
        }
        sink.cancel();
    };
    let (result, ()) = tokio::join!(place.shell(script, &sink), asked);
    assert_cancelled(&result.unwrap_err());
}

#[tokio::test]
async fn its_last_words_are_reported_but_claim_nothing() {
    let place = Place::new();
    let sink = Sink::with(|event| {
        let ready = matches!(event, Event::Text { text } if text.contains("ready"));
        if ready { Then::Cancel } else { Then::GoOn }
    });
    let script = "trap 'echo \"<promise>COMPLETE: bye</promise>\"; exit 0' INT; echo ready; while :; do sleep 0.01; done";
    let error = place.shell(script, &sink).await.unwrap_err();
    assert_cancelled(&error);
    assert!(sink.text().ends_with("bye</promise>\n"));
    assert_eq!(error.report.exit.as_deref(), Some("exit 0"));
}

#[tokio::test]
async fn with_the_figures_known_so_far() {
    let place = Place::new();
    let line = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls","tokens":{"input":7,"output":1},"cost":0.5}}"#;
    let script = format!("echo '{line}'; sleep 1000");
    let config = json!({"program": ["sh", "-c", script], "output": "opencode-json"});
    let sink =
        Sink::with(
            |event| {
                if matches!(event, Event::Usage { .. }) { Then::Cancel } else { Then::GoOn }
            },
        );
    let error = place.run(config, b"", &sink).await.unwrap_err();
    assert_cancelled(&error);
    assert_eq!(error.report.usage.tokens.unwrap().total(), 8);
    assert_eq!(error.report.session.as_deref(), Some("s"));
}

#[tokio::test]
async fn a_dropped_run_ends_its_processes() {
    let place = Place::new();
    let sink = Sink::new();
    let agent = place.agent(json!({"program": ["sh", "-c", "echo ready; sleep 1000"]}));
    let dropped = async {
        while sink.text().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        result = agent.run(place.task(b""), &sink) => panic!("{result:?}"),
        () = dropped => {}
    }
    let patience = Instant::now() + Duration::from_secs(30);
    while !place.processes().is_empty() {
        assert!(Instant::now() < patience, "all processes are ended");
        tokio::task::yield_now().await;
    }
}
