//! Iterations that the orchestrator ends, as far as it is not the same for every adapter, and others
//! that end before their time.

use ralph_orchestrator_contract::{ErrorClass, Tokens};
use ralph_orchestrator_testkit::fake_agent::FakeAgent;
use ralph_orchestrator_testkit::model_server::{Fault, Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

#[tokio::test]
async fn in_the_middle_of_a_message() {
    let slow = Turn::text("slow words").fault(Fault::Stall);
    Harness::new(Script::new()).cancelled_in(slow, json!({}), &RecordingSink::new()).await;
}

#[tokio::test]
async fn while_a_tool_runs() {
    let usage = Tokens { input: 145_000, output: 30, ..Tokens::default() };
    let error = Harness::new(Script::new())
        .cancelled_in_tool(json!({}), usage, &RecordingSink::new())
        .await;
    // The call that led to the tool had ended, so it is counted, though the turn never did.
    assert_eq!(error.report.usage.tokens, Some(usage));
}

#[tokio::test]
async fn killed_by_somebody_else() {
    let harness = Harness::new(Script::new());
    // The agent's own tool kills it, from inside its tree.
    let kill = "p=$PPID; while [ $p -gt 1 ]; do n=$(awk '/^PPid/{print $2}' /proc/$p/status); \
                c=$(tr '\\0' ' ' < /proc/$p/cmdline); case $c in *'exec --json'*) kill -9 $p;; esac; p=$n; done";
    let harness = harness.with_script(Script::new().forever(Turn::shell(kill)));
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class, ErrorClass::Crashed, "{error}");
    assert!(error.report.exit.is_some() && error.report.final_text.is_none());
}

#[tokio::test]
async fn one_that_does_not_exit_has_said_all_before() {
    let harness = Harness::new(Script::new());
    let fake = FakeAgent::new(harness.folder().join("fake"));
    let happy = include_str!("../../../common/tests/transcripts/codex/happy.jsonl");
    let script = format!("cat <<'END'\n{happy}END\nexec sleep 1000");
    let _ = fake.default_call().script(&script);
    let report =
        harness.run(json!({"program": fake.program()}), &RecordingSink::new()).await.unwrap();
    assert!(report.final_text.unwrap().contains("All done."));
    assert!(report.exit.unwrap().starts_with("signal 2"));
    assert_eq!(fake.stdin(1), b"Do it.");
    assert_eq!(fake.argv(1)[..2], ["exec", "--json"]);
}
