//! Iterations that the orchestrator ends.

use std::time::Duration;

use orchestrator::contract::{CancelReason, ErrorClass, Tokens};
use ralph_orchestrator_testkit::fake_agent::FakeAgent;
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::json;

use crate::rig::{Rig, Sink};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn while_the_model_says_nothing_or_stops_in_the_middle() {
    for reply in [Reply::Hang, Turn::text("slow words").fault(Fault::Stall).into()] {
        let rig = Rig::new(Script::new().forever(reply));
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
        assert_eq!(error.report.final_text, None);
    }
}

/// Runs a tool that tells through a pipe that it is up, and does `then` when it is.
async fn in_a_tool(then: impl FnOnce(&Sink)) -> orchestrator::contract::AgentError {
    let usage = Tokens { input: 145_000, output: 30, ..Tokens::default() };
    let rig = Rig::new(Script::new());
    let fifo = rig.folder().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    // Two that go on: one in the tool's own session, one in a further session.
    let command =
        format!("setsid sleep 1000 & echo $PPID > '{}'; sleep 1000", fifo.to_str().unwrap());
    let rig = rig.scripted(Script::new().forever(Turn::shell(&command).usage(usage)));
    let sink = Sink::new();
    let up = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo));
    let cancel = async {
        let up = tokio::time::timeout(PATIENCE, up).await.expect("the tool never ran");
        assert!(up.unwrap().unwrap().trim().parse::<u32>().is_ok());
        then(&sink);
    };
    let (result, ()) = tokio::join!(rig.run(json!({}), &sink), cancel);
    let error = result.unwrap_err();
    // The call that led to the tool had ended, so it is counted, though the turn never did.
    assert_eq!(error.report.usage.tokens, Some(usage));
    error
}

#[tokio::test]
async fn while_a_tool_runs() {
    let error = in_a_tool(|sink| sink.cancel(CancelReason::Signal)).await;
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
}

#[tokio::test]
async fn before_the_thread_began() {
    let rig = Rig::new(Script::new().forever(Turn::text("too late")));
    let sink = Sink::new();
    sink.cancel(CancelReason::Timeout);
    let error = rig.run(json!({}), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    assert!(rig.server.requests().is_empty());
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

#[tokio::test]
async fn killed_by_somebody_else() {
    let rig = Rig::new(Script::new());
    // The agent's own tool kills it, from inside its tree.
    let kill = "p=$PPID; while [ $p -gt 1 ]; do n=$(awk '/^PPid/{print $2}' /proc/$p/status); \
                c=$(tr '\\0' ' ' < /proc/$p/cmdline); case $c in *'exec --json'*) kill -9 $p;; esac; p=$n; done";
    let rig = rig.scripted(Script::new().forever(Turn::shell(kill)));
    let error = rig.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Crashed, "{error}");
    assert!(error.report.exit.is_some() && error.report.final_text.is_none());
}

#[tokio::test]
async fn one_that_does_not_exit_has_said_all_before() {
    let rig = Rig::new(Script::new());
    let fake = FakeAgent::new(rig.folder().join("fake"));
    let happy = include_str!("../../../codex-stream/tests/transcripts/happy.jsonl");
    let script = format!("cat <<'END'\n{happy}END\nexec sleep 1000");
    let _ = fake.default_call().script(&script);
    let report = rig.run(json!({"program": fake.program()}), &Sink::new()).await.unwrap();
    assert!(report.final_text.unwrap().contains("All done."));
    assert!(report.exit.unwrap().starts_with("signal 2"));
    assert_eq!(fake.stdin(1), b"Do it.");
    assert_eq!(fake.argv(1)[..2], ["exec", "--json"]);
}
