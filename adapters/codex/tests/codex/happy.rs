//! Iterations that end well.

use std::time::Duration;

use ralph_orchestrator_contract::{Event, Tokens, Usage};
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::{Value, json};

use crate::harness::{Harness, RecordingSink};

const FIRST: Tokens = Tokens { input: 2000, output: 120, cache_read: 0, cache_write: 15_000 };
const LAST: Tokens = Tokens { input: 20, output: 40, cache_read: 17_000, cache_write: 300 };

#[tokio::test]
async fn writes_a_file_and_reports_exact_figures() {
    let script = Script::new()
        .then(
            Turn::text("I will write it.")
                .thinking("hm")
                .and_shell("echo hello ralph > hello.txt; cat hello.txt")
                .usage(FIRST),
        )
        .then(Turn::text("Done. <promise>COMPLETE: written</promise>").usage(LAST));
    let harness = Harness::new(script);
    let sink = RecordingSink::new();
    let report = harness.run(json!({}), &sink).await.unwrap();
    let written = std::fs::read_to_string(harness.workspace().join("hello.txt")).unwrap();
    assert_eq!(written, "hello ralph\n");
    assert_eq!(report.final_text.as_deref(), Some("Done. <promise>COMPLETE: written</promise>"));
    let tokens = FIRST + LAST;
    assert_eq!(harness.server.served(), tokens);
    assert_eq!(report.usage, Usage { tokens: Some(tokens), cost: None, estimated: false });
    assert_eq!(report.exit.as_deref(), Some("exit 0"));
    assert!(report.left_behind.is_empty() && report.denied.is_empty());
    let events = sink.events();
    let sessions: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Session { id, model } => Some((Some(id.clone()), model.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(sessions[0].0, report.session);
    assert_eq!(sessions[1], (report.session, Some("gpt-5.1-codex".to_owned())));
    let reported = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(
        reported(|e| matches!(e, Event::ToolCall { name, .. } if name == "command_execution")),
        1
    );
    let answered = |e: &Event| matches!(e, Event::ToolResult { is_error: false, text, .. } if text == "hello ralph\n");
    assert_eq!(reported(answered), 1);
    assert_eq!(reported(|e| matches!(e, Event::Thinking { .. })), 1);
    // How full the context is: all that the last request sent and brought, of what fits in.
    let context = events.iter().rev().find_map(|event| match event {
        Event::Context { used, window } => Some((*used, window.is_some())),
        _ => None,
    });
    assert_eq!(context, Some((LAST.total(), true)));
    // The first request's figures came before the end.
    let first = Usage { tokens: Some(FIRST), ..Usage::default() };
    let position = |wanted: &Event| events.iter().position(|event| event == wanted).unwrap();
    let done = events.iter().position(answered).unwrap();
    assert!(position(&Event::Usage { usage: first }) <= done + 1, "{events:?}");
}

#[tokio::test]
async fn the_rate_windows_of_an_account_are_reported() {
    // A provider's clock is its own.
    let reset = 4_102_444_800_u64;
    let reply = Reply::from(Turn::text("done"))
        .header("x-codex-primary-used-percent", "93.5")
        .header("x-codex-primary-window-minutes", "300")
        .header("x-codex-primary-reset-at", &reset.to_string())
        .header("x-codex-secondary-used-percent", "41")
        .header("x-codex-secondary-window-minutes", "10080");
    let sink = RecordingSink::new();
    Harness::new(Script::new().forever(reply)).run(json!({}), &sink).await.unwrap();
    let events = sink.events();
    let windows: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::RateWindow { name, used, resets_at_ms } => {
                Some((name.as_str(), *used, *resets_at_ms))
            }
            _ => None,
        })
        .collect();
    assert!(windows.contains(&("five_hour", 0.935, Some(reset * 1000))), "{windows:?}");
    assert!(windows.contains(&("weekly", 0.41, None)), "{windows:?}");
}

#[tokio::test]
async fn every_iteration_is_a_fresh_thread_with_its_own_figures() {
    let harness = Harness::new(Script::new().forever(Turn::text("done").usage(LAST)));
    let first = harness.run(json!({}), &RecordingSink::new()).await.unwrap();
    let second = harness.run(json!({}), &RecordingSink::new()).await.unwrap();
    assert_ne!(first.session, second.session);
    assert_eq!((first.usage, second.usage.tokens), (second.usage, Some(LAST)));
}

#[tokio::test]
async fn a_prompt_of_almost_a_mebibyte_arrives_byte_for_byte() {
    let harness = Harness::new(Script::new().then(Turn::text("read")));
    let line = "{x} $HOME {{y}} \"quoted\" `ticks` ünïcödé \u{1f980}\\n\n";
    let prompt = line.repeat(1024 * 1024 / line.len() - 1);
    harness
        .run_task(json!({}), harness.task(prompt.as_bytes()), &RecordingSink::new())
        .await
        .unwrap();
    let requests = harness.server.main_requests();
    let inputs = requests[0].body["input"].as_array().unwrap();
    let texts = inputs.iter().filter_map(|item| item["content"][0]["text"].as_str());
    let longest = texts.max_by_key(|text| text.len()).unwrap();
    assert_eq!(longest.trim_end(), prompt.trim_end());
}

#[tokio::test]
async fn a_stream_that_breaks_is_asked_for_again() {
    for fault in [Fault::Cut, Fault::Error] {
        let broken = Turn::text("never heard").fault(fault);
        let harness = Harness::new(Script::new().then(broken).forever(Turn::text("whole")));
        let sink = RecordingSink::new();
        let result = harness.run(json!({}), &sink).await;
        // An overloaded model is left to the orchestrator at once.
        match fault {
            Fault::Error => assert_eq!(result.unwrap_err().class.word(), "overloaded"),
            _ => assert_eq!(result.unwrap().final_text.as_deref(), Some("whole"), "{fault:?}"),
        }
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
async fn options_reach_the_model() {
    let harness = Harness::new(Script::new().then(Turn::text("ok")));
    let config = json!({"model": "gpt-5", "sandbox": "read-only",
        "args": ["-c", "instructions=\"x\"", "-c", "model_reasoning_effort=high"]});
    harness.run(config, &RecordingSink::new()).await.unwrap();
    let request = &harness.server.main_requests()[0];
    assert_eq!(request.model(), "gpt-5");
    assert_eq!(request.body["reasoning"]["effort"], Value::from("high"));
    let input = request.body["input"].to_string();
    assert!(input.contains("read-only") && !input.contains("danger-full-access"), "{input}");
}

#[tokio::test]
async fn it_is_checked_without_spending_anything() {
    let harness = Harness::new(Script::new());
    let found = harness.agent(json!({})).check(&harness.env).await.unwrap();
    assert!(found.starts_with("codex-cli ") && found.contains("node_modules"), "{found}");
    let missing =
        harness.agent(json!({"program": "no-such-codex"})).check(&harness.env).await.unwrap_err();
    assert_eq!(missing.class.word(), "unavailable");
    assert!(missing.message.contains("npm install -g @openai/codex"), "{missing}");
    assert!(harness.server.requests().is_empty());
}
