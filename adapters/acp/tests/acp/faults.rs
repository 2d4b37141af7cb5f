//! An agent that speaks the protocol badly.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{AgentError, Event, Report};
use ralph_orchestrator_testkit::fake_agent::write_executable;
use ralph_orchestrator_testkit::flood::assert_gives_way;
use ralph_orchestrator_testkit::model_server::Script;
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

/// Answers in the right places; `work` is what it does with its prompt.
async fn imitate(work: &str, sink: &RecordingSink) -> (Harness, Result<Report, AgentError>) {
    let harness = Harness::new(Script::new());
    let program = harness.folder().join("agent");
    let script = format!(
        r#"#!/bin/sh
say() {{ printf '%s\n' "$1"; }}
text() {{ say '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"'"$1"'"}}}}}}}}'; }}
id() {{ printf '%s' "$1" | sed 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/'; }}
answer() {{ say '{{"jsonrpc":"2.0","id":'"$(id "$line")"',"result":'"$1"'}}'; }}
fail() {{ say '{{"jsonrpc":"2.0","id":'"$(id "$line")"',"error":'"$1"'}}'; }}
done_() {{ answer '{{"stopReason":"end_turn"}}'; }}
while read -r line; do
  case $line in
    *'"method":"initialize"'*) answer '{{"protocolVersion":1}}' ;;
    *'"method":"session/new"'*) answer '{{"sessionId":"s"}}' ;;
    *'"method":"session/prompt"'*) {work} ;;
  esac
done
"#
    );
    write_executable(&program, &script);
    let result = harness.run(json!({"program": [program]}), sink).await;
    (harness, result)
}

#[tokio::test]
async fn the_plain_case() {
    let sink = RecordingSink::new();
    let (_, result) = imitate("text hello; done_", &sink).await;
    assert_eq!(result.unwrap().final_text.as_deref(), Some("hello"));
}

#[tokio::test]
async fn garbage_between_messages_is_warned_of_once_and_kept() {
    let work = r#"text one; echo '{"half": '; echo noise; printf '\377\376\n'; echo '[1,2]'; echo 7; done_"#;
    let sink = RecordingSink::new();
    let (_, result) = imitate(work, &sink).await;
    assert_eq!(result.unwrap().final_text.as_deref(), Some("one"));
    let events = sink.events();
    let raw =
        |wanted: &str| events.iter().any(|e| matches!(e, Event::Raw { line } if line == wanted));
    assert!(raw("noise") && raw("\u{fffd}\u{fffd}") && raw("[1,2]"));
    assert_eq!(events.iter().filter(|e| matches!(e, Event::Warning { .. })).count(), 1);
}

#[tokio::test]
async fn requests_that_are_not_offered_are_refused_and_unknown_notices_passed_over() {
    let work = r#"prompt=$line
      say '{"jsonrpc":"2.0","method":"_vendor/thing","params":[1]}'
      say '{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{"sessionId":"s","path":"/etc/passwd"}}'
      read -r one
      say '{"jsonrpc":"2.0","id":"b","method":"no/such","params":{}}'
      read -r two
      say '{"jsonrpc":"2.0","id":"c","method":"session/request_permission","params":{"nonsense":1}}'
      read -r three
      line=$prompt
      text "$(printf '%s\n' "$one" "$two" "$three" | grep -c '.error.:{')"; done_"#;
    let (_, result) = imitate(work, &RecordingSink::new()).await;
    assert_eq!(result.unwrap().final_text.as_deref().map(str::trim), Some("3"));
}

#[tokio::test]
async fn a_line_too_long_is_cut_and_costs_no_memory() {
    let work = "text before; head -c 40000000 /dev/zero | tr '\\0' x; echo; text after; done_";
    let sink = RecordingSink::new();
    let (_, result) = imitate(work, &sink).await;
    assert_eq!(result.unwrap().final_text.as_deref(), Some("beforeafter"));
    assert!(sink.has_warning("40000000 bytes"));
}

#[tokio::test]
async fn an_end_without_an_answer_is_a_crash_with_its_status() {
    for (work, exit) in [("text half; exit 0", "exit 0"), ("text half; exit 7", "exit 7")] {
        let (_, result) = imitate(work, &RecordingSink::new()).await;
        let error = result.unwrap_err();
        assert_eq!(error.class.word(), "crashed", "{error}");
        assert!(error.message.contains(exit), "{error}");
        assert_eq!(error.report.final_text, None);
    }
}

#[tokio::test]
async fn an_answer_that_comes_twice_counts_once() {
    let work = r#"text one; done_; done_; fail '{"code":-32603,"message":"late"}'; say '{"jsonrpc":"2.0","id":99,"result":{}}'"#;
    let (_, result) = imitate(work, &RecordingSink::new()).await;
    assert_eq!(result.unwrap().final_text.as_deref(), Some("one"));
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_no_good_ending() {
    for work in ["answer '{}'", "answer '{\"stopReason\":\"tired\"}'", "answer null"] {
        let (_, result) = imitate(work, &RecordingSink::new()).await;
        let error = result.unwrap_err();
        assert!(error.message.contains("session/prompt"), "{work}: {error}");
    }
}

#[tokio::test]
async fn who_ignores_the_end_of_its_input_is_ended_and_has_done_well() {
    let began = Instant::now();
    let work = "text one; done_; trap '' INT TERM; while :; do sleep 1000; done";
    let (_, result) = imitate(work, &RecordingSink::new()).await;
    let report = result.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("one"));
    assert!(began.elapsed() >= Duration::from_secs(10), "it had no time to end by itself");
}

#[tokio::test]
async fn how_it_exits_after_its_turn_says_nothing() {
    let (_, result) = imitate("text one; done_; exit 9", &RecordingSink::new()).await;
    let report = result.unwrap();
    assert_eq!(
        (report.final_text.as_deref(), report.exit.as_deref()),
        (Some("one"), Some("exit 9"))
    );
}

#[tokio::test]
async fn errors_are_classed_by_their_kind() {
    let work =
        r#"fail '{"code":-32603,"message":"Internal error","data":{"errorKind":"overloaded"}}'"#;
    let (_, result) = imitate(work, &RecordingSink::new()).await;
    assert_eq!(result.unwrap_err().class.word(), "overloaded");
    let (_, result) =
        imitate(r#"fail '{"code":-32000,"message":"x"}'"#, &RecordingSink::new()).await;
    assert_eq!(result.unwrap_err().class.word(), "unauthenticated");
}

#[tokio::test]
async fn prompts_that_cannot_be_sent_are_refused() {
    let harness = Harness::new(Script::new());
    for prompt in [b"".as_slice(), b" \n", b"\xff"] {
        let config = json!({"program": ["/bin/cat"]});
        let result = harness.run_task(config, harness.task(prompt), &RecordingSink::new()).await;
        assert_eq!(result.unwrap_err().class.word(), "invalid_request", "{prompt:?}");
    }
}

#[test]
fn who_prints_without_an_end_gives_way() {
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}"#;
    let unknown = r#"{"jsonrpc":"2.0","method":"x/y","params":{}}"#;
    for flood in ["y", "", update, unknown] {
        for to in ["", ">&2"] {
            let work = format!("yes '{flood}' {to}");
            assert_gives_way(&work.clone(), move || async move {
                drop(imitate(&work, &RecordingSink::new()).await);
            });
        }
    }
}
