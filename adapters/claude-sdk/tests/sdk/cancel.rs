//! Iterations that the orchestrator ends, in every phase; the rig sees to it that nothing is left.

use std::time::Duration;

use orchestrator::contract::{CancelReason, ErrorClass, Event, Tokens};
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::json;

use crate::rig::{Rig, Sink};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn before_the_session_began() {
    let rig = Rig::new(Script::new().forever(Turn::text("too late")));
    let sink = Sink::new();
    sink.cancel(CancelReason::Timeout);
    let error = rig.run(json!({}), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    assert!(rig.server.main_requests().is_empty());
}

#[tokio::test]
async fn as_soon_as_it_says_that_it_is_there() {
    let rig = Rig::new(Script::new().forever(Turn::text("x")));
    let there = |event: &Event| matches!(event, Event::Raw { line } if line.contains("\"control_response\""));
    let error = rig.run(json!({}), &Sink::cancelling_at(there)).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
}

#[tokio::test]
async fn while_the_model_says_nothing() {
    let rig = Rig::new(Script::new().forever(Reply::Hang));
    let sink = Sink::new();
    let cancel = async {
        rig.stalled().await;
        sink.cancel(CancelReason::Idle);
    };
    let (result, ()) = tokio::join!(rig.run(json!({}), &sink), cancel);
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled);
    assert!(error.message.contains("limits.idle_timeout"), "{error}");
    assert!(error.report.exit.is_some() && error.report.session.is_some());
}

#[tokio::test]
async fn in_the_middle_of_a_message() {
    let usage = Tokens { input: 150_000, output: 500, ..Tokens::default() };
    let slow = Turn::text("slow words").usage(usage).fault(Fault::Stall);
    let rig = Rig::new(Script::new().forever(slow));
    let sink = Sink::new();
    let cancel = async {
        rig.stalled().await;
        sink.cancel(CancelReason::MaxRuntime);
    };
    let (result, ()) = tokio::join!(rig.run(json!({}), &sink), cancel);
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled);
    assert_eq!(error.report.final_text, None);
    // The agent's own figure leaves the interrupted call out; nothing is not what it has cost.
    assert_eq!(error.report.usage.cost, None);
    assert!(
        error.report.exit.as_deref().is_some_and(|exit| exit.starts_with("exit ")),
        "{error:?}"
    );
}

#[tokio::test]
async fn while_a_tool_runs() {
    let rig = Rig::new(Script::new());
    let fifo = rig.folder().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    // Two that go on: one in the tool's own session, one in a further session.
    let command = format!("setsid sleep 1000 & echo up > '{}'; sleep 1000", fifo.to_str().unwrap());
    let bash = json!({"command": command, "description": "sleep", "timeout": 600_000});
    let usage = Tokens { input: 145_000, output: 30, ..Tokens::default() };
    let rig = rig.scripted(Script::new().forever(Turn::tool("Bash", &bash).usage(usage)));
    let sink = Sink::new();
    let up = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo));
    let cancel = async {
        let up = tokio::time::timeout(PATIENCE, up).await.expect("the tool never ran");
        assert_eq!(up.unwrap().unwrap(), "up\n");
        sink.cancel(CancelReason::Signal);
    };
    let (result, ()) = tokio::join!(rig.run(json!({}), &sink), cancel);
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    // The call that led to the tool had ended, so it is counted.
    assert_eq!(error.report.usage.cost.unwrap().dollars(), 0.72575);
}

#[tokio::test]
async fn while_its_claim_is_judged() {
    let claim = json!({"message": "all"});
    for turn in [Turn::text("done"), Turn::tool("mcp__ralph__claim_complete", &claim)] {
        let rig = Rig::new(Script::new().forever(turn));
        let sink = Sink::judging([None]);
        let cancel = async {
            sink.wait_until_judging().await;
            sink.cancel(CancelReason::Signal);
        };
        let (result, ()) = tokio::join!(rig.run(json!({}), &sink), cancel);
        let error = result.unwrap_err();
        assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    }
}

#[tokio::test]
async fn after_the_result_is_too_late_to_undo_it() {
    let rig = Rig::new(Script::new().then(Turn::text("finished")));
    let is_result = |event: &Event| matches!(event, Event::Raw { line } if line.starts_with("{\"type\":\"result\""));
    // The line is handed over before it is read, and the end is wanted from then on.
    let report = rig.run(json!({}), &Sink::cancelling_at(is_result)).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("finished"));
}

#[tokio::test]
async fn by_dropping_the_future() {
    let rig = Rig::new(Script::new().forever(Reply::Hang));
    let sink = Sink::new();
    let agent = rig.agent(json!({}));
    tokio::select! {
        result = agent.run(rig.task("Do it."), &sink) => panic!("it ended: {result:?}"),
        () = rig.stalled() => {}
    }
    rig.wait_until_nothing_is_left(PATIENCE).await;
}
