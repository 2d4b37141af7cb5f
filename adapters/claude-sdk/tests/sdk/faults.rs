//! Agents that keep to the protocol badly, or not at all.

use std::path::PathBuf;
use std::time::Duration;

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report, Usd};
use ralph_orchestrator_testkit::fake_agent::write_executable;
use ralph_orchestrator_testkit::flood::assert_gives_way;
use ralph_orchestrator_testkit::model_server::Script;
use serde_json::{Value, json};

use crate::harness::{Harness, RecordingSink, notes};

const PATIENCE: Duration = Duration::from_secs(60);
const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","total_cost_usd":0.25,"session_id":"s"}"#;
const ABORTED: &str = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","total_cost_usd":0.5}"#;
/// Answers the first request, and reads the prompt and the question for the context's size.
const BEGIN: &str =
    "read -r initialize; say \"$(answer ralph-1)\"; read -r prompt; read -r question";
/// A message that calls a tool, with 80 of 100 tokens used.
const FULL: &str = r#"say '{"type":"control_response","response":{"subtype":"success","request_id":"ralph-2","response":{"maxTokens":100}}}'
say '{"type":"assistant","message":{"id":"1","model":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}],"usage":{"input_tokens":80}}}'
say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}'"#;

/// A harness whose agent is this shell script.
fn scripted(script: &str) -> (Harness, Value) {
    let harness = Harness::new(Script::new());
    let path = harness.folder().join("fake");
    let library = "#!/bin/sh\nsay() { printf '%s\\n' \"$1\"; }\n\
        answer() { printf '{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"%s\"}}' \"$1\"; }\n";
    let folder = harness.folder().display().to_string();
    write_executable(&path, &format!("{library}cd '{folder}'\n{script}\n"));
    (harness, json!({"program": path}))
}

async fn run(script: &str) -> (Harness, RecordingSink, Result<Report, AgentError>) {
    let (harness, config) = scripted(script);
    let sink = RecordingSink::new();
    let result = harness.run(config, &sink).await;
    (harness, sink, result)
}

/// The same; as soon as the script has written to `fifo`, so much time passes.
async fn run_late(script: &str, late: Duration) -> (RecordingSink, Result<Report, AgentError>) {
    let (harness, config) = scripted(script);
    let fifo: PathBuf = harness.folder().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let agent = harness.agent(config);
    let sink = RecordingSink::new();
    let pass = async {
        let there = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo));
        tokio::time::timeout(PATIENCE, there).await.expect("it is never there").unwrap().unwrap();
        // What it printed before is read by then.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        tokio::time::advance(late).await;
        tokio::time::resume();
    };
    let task = harness.task("Do it.");
    let (result, ()) = tokio::join!(agent.run(task, &sink), pass);
    harness.wait_until_nothing_is_left(PATIENCE).await;
    (sink, result)
}

#[tokio::test]
async fn what_makes_no_sense_is_kept_and_costs_nothing_else() {
    // A line of 9 MiB, bytes that are no text, unknown messages and fields, and what is asked of
    // nobody; each of our answers goes to a file.
    let script = format!(
        "{BEGIN}; say '{INIT}'; head -c 9437184 /dev/zero | tr '\\0' x; echo; printf 'caf\\351 \\0\\n'
        say '{{\"type\":\"telepathy\",\"x\":1}}'; say '[]'; say '{{\"type\":\"assistant\"'
        say '{{\"type\":\"control_request\",\"request_id\":\"a\",\"request\":{{\"subtype\":\"dance\"}}}}'
        say '{{\"type\":\"control_request\",\"request_id\":\"b\",\"request\":{{\"subtype\":\"hook_callback\",\"callback_id\":\"z\"}}}}'
        say '{{\"type\":\"control_request\",\"request_id\":\"c\",\"request\":{{\"subtype\":\"mcp_message\",\"server_name\":\"z\"}}}}'
        say '{{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":\"nobody\"}}}}'
        say '{{\"type\":\"control_cancel_request\",\"request_id\":\"nobody\"}}'
        for n in 1 2 3; do read -r line; say \"$line\" >>answers; done
        say '{RESULT}'; say '{RESULT}'; say 'bye'; echo oops >&2; printf unended >&2"
    );
    let (harness, sink, result) = run(&script).await;
    let report = result.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("ok"));
    assert_eq!(report.usage.cost, Usd::from_dollars(0.25), "a result told twice counts once");
    let answers = std::fs::read_to_string(harness.folder().join("answers")).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (answer, id) in answers.iter().zip(["a", "b", "c"]) {
        assert_eq!(answer["type"], "control_response");
        assert_eq!(
            (&answer["response"]["subtype"], &answer["response"]["request_id"]),
            (&json!("error"), &json!(id))
        );
    }
    assert!(answers[0]["response"]["error"].as_str().unwrap().contains("dance"));
    assert!(
        sink.has_warning("a line of 9437184 bytes") && sink.has_warning("no message: caf\u{fffd}")
    );
    let raw = |what: &str| {
        sink.events().iter().any(|e| matches!(e, Event::Raw { line } if line.contains(what)))
    };
    for kept in ["telepathy", "dance", "nobody", "[]", "bye"] {
        assert!(raw(kept), "{kept}");
    }
    let stderr = |text: &str| sink.events().contains(&Event::Stderr { text: text.to_owned() });
    assert!(stderr("oops") && stderr("unended"));
}

#[tokio::test]
async fn that_ends_in_the_middle() {
    for (script, exit) in [
        ("exit 3".to_owned(), "exit 3"),
        ("read -r initialize".to_owned(), "exit 0"),
        (format!("{BEGIN}; say '{INIT}'; echo 'Error: broken' >&2"), "broken"),
        (format!("{BEGIN}; say '{INIT}'; kill -9 $$"), "signal 9"),
    ] {
        let (_rig, _sink, result) = run(&script).await;
        let error = result.unwrap_err();
        assert_eq!(error.class, ErrorClass::Crashed, "{script}: {error}");
        assert!(error.message.contains(exit), "{script}: {error}");
    }
}

#[tokio::test]
async fn that_refuses_to_begin() {
    let refusal = r#"{"type":"control_response","response":{"subtype":"error","request_id":"ralph-1","error":"not today"}}"#;
    let (_rig, _sink, result) = run(&format!("read -r x; say '{refusal}'; sleep 1000")).await;
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(error.message.contains("not today"), "{error}");
}

#[tokio::test]
async fn that_never_says_that_it_is_there() {
    let script = "read -r initialize; echo there >fifo; trap '' INT; sleep 1000";
    let (_sink, result) = run_late(script, Duration::from_secs(61)).await;
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(error.message.contains("within 60 s"), "{error}");
}

#[tokio::test]
async fn that_asks_and_asks_but_does_not_listen() {
    let ask = r#"{"type":"control_request","request_id":"a","request":{"subtype":"dance"}}"#;
    let (_rig, _sink, result) = run(&format!("yes '{ask}'")).await;
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(error.message.contains("does not read"), "{error}");
}

#[tokio::test]
async fn that_hangs_after_its_result_is_a_success() {
    let script = format!("{BEGIN}; say '{INIT}'; say '{RESULT}'; echo there >fifo; sleep 1000");
    let (_sink, result) = run_late(&script, Duration::from_secs(11)).await;
    assert_eq!(result.unwrap().final_text.as_deref(), Some("ok"));
}

#[tokio::test]
async fn that_leaves_a_process_behind() {
    let script = format!("{BEGIN}; setsid sleep 1000 >/dev/null 2>&1 & {BEGIN}; say '{RESULT}'");
    let (_rig, _sink, result) = run(&script.replacen(&format!("{BEGIN}; "), "", 1)).await;
    let report = result.unwrap();
    // By then it may or may not have become what it is to be.
    assert_eq!(report.left_behind.len(), 1, "{:?}", report.left_behind);
}

#[tokio::test]
async fn that_takes_its_question_back() {
    let stop = r#"{"type":"control_request","request_id":"stop","request":{"subtype":"hook_callback","callback_id":"at-stop","input":{}}}"#;
    let cancel = r#"{"type":"control_cancel_request","request_id":"stop"}"#;
    let script =
        format!("{BEGIN}; say '{INIT}'; say '{stop}'; say '{cancel}'; say '{RESULT}'; cat >rest");
    let (harness, config) = scripted(&script);
    let report = harness.run(config, &RecordingSink::with_previews([None])).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("ok"));
    assert_eq!(std::fs::read_to_string(harness.folder().join("rest")).unwrap(), "");
}

#[tokio::test]
async fn that_never_stops_for_its_hand_off() {
    let script = format!(
        "{BEGIN}; say '{INIT}'; {FULL}; read -r a; read -r b; echo there >fifo; sleep 1000"
    );
    let (sink, result) = run_late(&script, Duration::from_secs(11)).await;
    let report = result.unwrap();
    assert_eq!((report.final_text, notes(&sink).len()), (None, 0));
    assert!(
        sink.has_warning("handed over") && sink.has_warning("no notes for the hand-off in time")
    );
}

#[tokio::test]
async fn that_never_writes_its_notes() {
    let script = format!(
        "{BEGIN}; say '{INIT}'; {FULL}; read -r a; read -r b; say '{ABORTED}'; say '{ABORTED}'
        read -r handoff; say '{INIT}'; echo there >fifo; sleep 1000"
    );
    let (sink, result) = run_late(&script, Duration::from_secs(121)).await;
    let report = result.unwrap();
    assert_eq!((report.final_text, notes(&sink).len()), (None, 0));
    assert_eq!(report.usage.cost, Usd::from_dollars(0.5));
    assert!(sink.has_warning("no notes for the hand-off in time"));
}

#[tokio::test]
async fn that_crashes_while_it_writes_its_notes() {
    let script = format!(
        "{BEGIN}; say '{INIT}'; {FULL}; read -r a; read -r b; say '{ABORTED}'; read -r handoff; say '{INIT}'; exit 9"
    );
    let (_rig, sink, result) = run(&script).await;
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Crashed, "{error}");
    assert!(notes(&sink).is_empty());
}

#[tokio::test]
async fn that_ends_by_itself_just_when_it_is_interrupted() {
    let script = format!("{BEGIN}; say '{INIT}'; {FULL}; read -r a; read -r b; say '{RESULT}'");
    let (_rig, sink, result) = run(&script).await;
    assert_eq!(result.unwrap().final_text.as_deref(), Some("ok"));
    assert!(notes(&sink).is_empty());
}

#[tokio::test]
async fn that_is_not_there() {
    let harness = Harness::new(Script::new());
    let error = harness.fail(json!({"program": "claude-that-is-nowhere"})).await;
    assert_eq!(error.class, ErrorClass::Unavailable);
    let (harness, config) = scripted("exit 0");
    let empty =
        harness.run_task(config, harness.task(""), &RecordingSink::new()).await.unwrap_err();
    assert_eq!(empty.class, ErrorClass::InvalidRequest);
}

#[test]
fn that_prints_without_an_end_gives_way() {
    let text =
        r#"{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"x"}]}}"#;
    let piece = r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{}}}"#;
    let request = r#"{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"true"}}}"#;
    for flood in ["y", "", text, piece, request] {
        for to in ["", ">&2"] {
            // It reads what it is answered, or it would be ended for that: so it begins once it has read an answer.
            let reads = format!(
                "exec 3<&0; trap ready=1 USR1\n\
                 {{ read -r first; kill -USR1 $$; exec cat > /dev/null; }} <&3 &\n\
                 say '{request}'; until [ \"$ready\" ]; do sleep 0.01; done"
            );
            let script = format!("{BEGIN}\n{reads}\nyes '{flood}' {to}");
            assert_gives_way(&script.clone(), move || async move {
                drop(run(&script).await);
            });
        }
    }
}
