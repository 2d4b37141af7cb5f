//! Iterations that end well.

use std::time::Duration;

use ralph_orchestrator_contract::{Budget, Event, Tokens, Usage, Usd};
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::{Value, json};

use crate::harness::{Harness, RecordingSink};

/// What Claude Code reckons for the model it uses by default, in nano-dollars.
fn cost(tokens: Tokens) -> Usd {
    let nanos = tokens.input * 5_000
        + tokens.output * 25_000
        + tokens.cache_read * 500
        + tokens.cache_write * 6_250;
    Usd::from_nanos(nanos)
}

#[tokio::test]
async fn writes_a_file_and_reports_exact_figures() {
    let first = Tokens { input: 2000, output: 120, cache_read: 0, cache_write: 15_000 };
    let last = Tokens { input: 20, output: 40, cache_read: 17_000, cache_write: 300 };
    let harness = Harness::new(Script::new());
    let path = harness.workspace().join("hello.txt");
    let write = json!({"file_path": path, "content": "hello ralph\n"});
    let script = Script::new()
        .then(Turn::text("I will write it.").thinking("hm").and_tool("Write", &write).usage(first))
        .then(Turn::text("Done. <promise>COMPLETE: written</promise>").usage(last));
    let harness = harness.with_script(script);
    let sink = RecordingSink::new();
    let report = harness.run(json!({}), &sink).await.unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "hello ralph\n");
    assert_eq!(report.final_text.as_deref(), Some("Done. <promise>COMPLETE: written</promise>"));
    let tokens = first + last;
    assert_eq!(harness.server.served(), tokens);
    assert_eq!(
        report.usage,
        Usage { tokens: Some(tokens), cost: Some(cost(tokens)), estimated: false }
    );
    assert_eq!(report.exit.as_deref(), Some("exit 0"));
    assert!(report.left_behind.is_empty() && report.denied.is_empty());
    let events = sink.events();
    let session = events.iter().find_map(|event| match event {
        Event::Session { id, .. } => Some(id.clone()),
        _ => None,
    });
    assert_eq!(session, report.session);
    assert!(matches!(&events[0], Event::Raw { line } if line.contains("\"init\"")));
    let call = |event: &Event| matches!(event, Event::ToolCall { name, .. } if name == "Write");
    assert_eq!(events.iter().filter(|event| call(event)).count(), 1);
    let last = events.iter().rev().find_map(|event| match event {
        Event::Usage { usage } => Some(*usage),
        _ => None,
    });
    assert_eq!(last, Some(report.usage));
}

#[tokio::test]
async fn a_prompt_of_two_mebibytes_arrives_byte_for_byte() {
    let harness = Harness::new(Script::new().then(Turn::text("read")));
    let line = "{x} $HOME {{y}} \"quoted\" `ticks` ünïcödé \u{1f980}\\n\n";
    let prompt = line.repeat(2 * 1024 * 1024 / line.len() + 1);
    let task = harness.task(prompt.as_bytes());
    harness.run_task(json!({}), task, &RecordingSink::new()).await.unwrap();
    let requests = harness.server.main_requests();
    let texts = |value: &Value| value.get("text").and_then(Value::as_str).map(str::to_owned);
    let content = &requests[0].body["messages"][0]["content"];
    let received = content.as_array().unwrap().iter().filter_map(texts);
    let longest = received.max_by_key(String::len).unwrap();
    assert_eq!(longest.trim_end(), prompt.trim_end());
}

#[tokio::test]
async fn failed_requests_that_then_succeed_are_waiting() {
    let script = Script::new().then(Reply::error(529, "Overloaded")).then(Turn::text("fine"));
    let harness = Harness::new(script);
    let sink = RecordingSink::new();
    let report = harness.run(json!({}), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("fine"));
    let waited = |event: &Event| matches!(event, Event::Waiting { delay_ms: Some(_), .. });
    assert_eq!(sink.events().iter().filter(|event| waited(event)).count(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_is_asked_for_again() {
    for fault in [Fault::Cut, Fault::Error] {
        let broken = Turn::text("never heard").fault(fault);
        let harness = Harness::new(Script::new().then(broken).forever(Turn::text("whole")));
        let report = harness.run(json!({}), &RecordingSink::new()).await.unwrap();
        assert_eq!(report.final_text.as_deref(), Some("whole"), "{fault:?}");
        assert!(report.usage.cost.unwrap() >= cost(harness.server.served()));
    }
}

#[tokio::test]
async fn a_slow_stream_is_waited_for() {
    let slow = Turn::text("at last").slow(Duration::from_millis(20));
    let harness = Harness::new(Script::new().then(slow));
    let report = harness.run(json!({}), &RecordingSink::new()).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("at last"));
}

#[tokio::test]
async fn what_the_permissions_refuse_is_named() {
    let harness = Harness::new(Script::new());
    let path = harness.workspace().join("no.txt");
    let write = json!({"file_path": path, "content": "no"});
    let script =
        Script::new().then(Turn::tool("Write", &write)).then(Turn::text("I was not allowed to."));
    let harness = harness.with_script(script).without_env("IS_SANDBOX");
    let report =
        harness.run(json!({"permission_mode": "default"}), &RecordingSink::new()).await.unwrap();
    assert_eq!(report.denied, [format!("Write: {}", path.display())]);
    assert!(!path.exists());
}

#[tokio::test]
async fn allowed_tools_work_for_root_too() {
    let harness = Harness::new(Script::new());
    let path = harness.workspace().join("yes.txt");
    let write = json!({"file_path": path, "content": "yes"});
    let script = Script::new().then(Turn::tool("Write", &write)).then(Turn::text("written"));
    let harness = harness.with_script(script).without_env("IS_SANDBOX");
    let config = json!({"permission_mode": "dontAsk", "allowed_tools": ["Write", "Bash(cat:*)"]});
    let report = harness.run(config, &RecordingSink::new()).await.unwrap();
    assert_eq!((report.denied.len(), path.exists()), (0, true));
}

#[tokio::test]
async fn options_reach_the_model() {
    let harness = Harness::new(Script::new().then(Turn::text("ok")));
    let config = json!({"model": "claude-haiku-4-5", "disallowed_tools": ["WebSearch", "Bash"],
        "max_turns": 5, "args": ["--append-system-prompt", "Speak Latin."]});
    harness.run(config, &RecordingSink::new()).await.unwrap();
    let request = &harness.server.main_requests()[0];
    assert!(request.model().starts_with("claude-haiku-4-5"), "{}", request.model());
    assert!(request.body["system"].to_string().contains("Speak Latin."));
    let tools = request.body["tools"].to_string();
    assert!(tools.contains("\"Write\"") && !tools.contains("\"Bash\""));
}

#[tokio::test]
async fn what_is_left_of_the_budget_is_passed_down() {
    let tick = json!({"command": "echo tick", "description": "tick"});
    let dear = Tokens { input: 50_000, output: 1000, ..Tokens::default() };
    let mut harness = Harness::new(Script::new().forever(Turn::tool("Bash", &tick).usage(dear)));
    harness.budget = Budget { cost: Usd::from_dollars(0.5), ..Budget::default() };
    let error = harness.fail(json!({})).await;
    assert_eq!(error.class.word(), "agent_limit", "{error}");
    assert_eq!(error.report.usage.cost, Usd::from_dollars(0.55));
    assert_eq!(error.report.usage.tokens.unwrap().input, 100_000);
}
