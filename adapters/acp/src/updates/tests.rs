//! Recorded sessions of real agents, and what must not throw it off.

use std::path::Path;

use super::*;
use serde_json::json;

/// Everything that a recorded session reports.
fn recorded(name: &str) -> (UpdateTranslator, Vec<Event>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(name);
    let (mut updates, mut events) = (UpdateTranslator::default(), Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        match message["method"].as_str() {
            Some("session/update") => {
                let update = &message["params"]["update"];
                // Each of them is known to the crate's types.
                let typed = serde_json::from_value::<SessionUpdate>(update.clone());
                assert!(typed.is_ok(), "{name}: {update}: {typed:?}");
                events.extend(updates.translate(update));
            }
            Some("session/request_permission") => {
                events.extend(updates.translate_permission_request(&message["params"]));
            }
            _ => {}
        }
    }
    updates.flush(&mut events);
    (updates, events)
}

fn texts(events: &[Event]) -> Vec<&str> {
    let text = |event: &'_ Event| matches!(event, Event::Text { .. });
    events
        .iter()
        .filter(|event| text(event))
        .map(|event| match event {
            Event::Text { text } => text.as_str(),
            _ => unreachable!(),
        })
        .collect()
}

fn calls(events: &[Event]) -> Vec<(String, String)> {
    let call = |event: &Event| match event {
        Event::ToolCall { name, input, .. } => Some((name.clone(), input.to_string())),
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

fn results(events: &[Event]) -> Vec<(bool, String)> {
    let result = |event: &Event| match event {
        Event::ToolResult { is_error, text, .. } => Some((*is_error, text.clone())),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

#[test]
fn claude_with_permissions() {
    let (updates, events) = recorded("claude-permissions.jsonl");
    assert_eq!(texts(&events), ["write", "net", "ok, denied"]);
    assert_eq!(updates.final_text().as_deref(), Some("ok, denied"));
    let calls = calls(&events);
    assert_eq!(calls.len(), 2, "each is updates of once: {calls:?}");
    assert!(calls[0].0 == "Write" && calls[0].1.contains("a.txt"), "{calls:?}");
    assert!(calls[1].0 == "Bash" && calls[1].1.contains("curl"), "{calls:?}");
    let results = results(&events);
    assert!(!results[0].0 && results[0].1.starts_with("File created"), "{results:?}");
    assert_eq!(results[1], (true, "User refused permission to run tool".to_owned()));
    assert_eq!(updates.usage().cost, Usd::from_dollars(0.00525));
    assert!(events.contains(&Event::Context { used: 150, window: Some(1_000_000) }));
    assert_eq!(updates.failure(), None);
}

#[test]
fn claude_at_work() {
    let (updates, events) = recorded("claude-happy.jsonl");
    assert!(updates.final_text().is_some_and(|text| text.contains("<promise>")), "{updates:?}");
    assert!(updates.usage().cost.is_some_and(|cost| cost > Usd::ZERO));
    assert_eq!(calls(&events).len(), results(&events).len());
}

#[test]
fn claude_cancelled_and_refused_by_its_provider() {
    for name in ["claude-cancel.jsonl", "claude-429.jsonl"] {
        let (updates, events) = recorded(name);
        assert!(!events.is_empty() && updates.failure().is_none(), "{name}");
    }
}

#[test]
fn codex_at_work() {
    let (updates, events) = recorded("codex-happy.jsonl");
    let last = "All done. <promise>COMPLETE: hello.txt written</promise> ";
    assert_eq!(updates.final_text().as_deref(), Some(last));
    assert!(texts(&events).contains(&last), "{events:?}");
    let thought = Event::Thinking { text: "Think first".to_owned() };
    assert!(events.contains(&thought));
    assert_eq!(updates.failure(), None);
}

#[test]
fn a_failure_of_codex_is_no_message() {
    let mut updates = UpdateTranslator::default();
    let status = |word: &str| {
        json!({"sessionUpdate": "session_info_update",
            "_meta": {"codex": {"threadStatus": {"type": word}}}})
    };
    updates.translate(&status("active"));
    updates.translate(&chunk("working", Some("m")));
    assert_eq!(updates.failure(), None);
    updates.translate(&status("systemError"));
    updates.translate(&chunk("exceeded retry limit, last status: 429 Too Many Requests\n\n", None));
    let failure = updates.failure().unwrap();
    assert_eq!(failure.class.word(), "rate_limited");
    assert!(!failure.message.contains("working"), "{failure:?}");
}

fn chunk(text: &str, id: Option<&str>) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
        "content": {"type": "text", "text": text}})
}

#[test]
fn messages_without_ids_end_where_something_else_begins() {
    let mut updates = UpdateTranslator::default();
    let mut events = Vec::new();
    for update in [
        chunk("one ", None),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 0}),
        chunk("two", None),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls"}),
        chunk("three", None),
    ] {
        events.extend(updates.translate(&update));
    }
    updates.flush(&mut events);
    assert_eq!(texts(&events), ["one two", "three"]);
    assert_eq!(updates.final_text().as_deref(), Some("three"));
    assert!(events.contains(&Event::Context { used: 1, window: None }));
}

#[test]
fn figures_only_grow_and_other_currencies_are_reported_once() {
    let mut updates = UpdateTranslator::default();
    let cost = |amount: f64, currency: &str| {
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
            "cost": {"amount": amount, "currency": currency}})
    };
    updates.translate(&cost(0.5, "USD"));
    assert!(
        !updates.translate(&cost(0.25, "USD")).iter().any(|e| matches!(e, Event::Usage { .. }))
    );
    assert_eq!(updates.usage().cost, Usd::from_dollars(0.5));
    let warned = |events: &[Event]| events.iter().any(|e| matches!(e, Event::Warning { .. }));
    assert!(warned(&updates.translate(&cost(9.0, "EUR"))));
    assert!(!warned(&updates.translate(&cost(9.0, "EUR"))));
    updates.translate(&cost(-1.0, "USD"));
    assert_eq!(updates.usage().cost, Usd::from_dollars(0.5));
}

#[test]
fn what_makes_no_sense_costs_no_more_than_itself() {
    let mut updates = UpdateTranslator::default();
    for update in [
        json!(null),
        json!(7),
        json!({"sessionUpdate": "a_new_kind", "x": [1]}),
        json!({"sessionUpdate": "agent_message_chunk"}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}}),
        json!({"sessionUpdate": "tool_call"}),
        json!({"sessionUpdate": "usage_update", "used": -1}),
        json!({"sessionUpdate": "plan", "entries": "none"}),
    ] {
        updates.translate(&update);
    }
    // An answer without a call is updates of as both.
    let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t",
        "status": "completed", "rawOutput": {"a": 1}});
    let events = updates.translate(&update);
    assert!(
        matches!(&events[..], [Event::ToolCall { .. }, Event::ToolResult { .. }]),
        "{events:?}"
    );
    updates.translate(&chunk("still here", None));
    assert_eq!(updates.final_text().as_deref(), Some("still here"));
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut updates = UpdateTranslator::default();
    let megabyte = "é".repeat(512 * 1024);
    for _ in 0..8 {
        updates.translate(&chunk(&megabyte, Some("m")));
    }
    assert!(updates.message.text.len() <= 2 * MAX_MESSAGE);
    for number in 0..3000 {
        let id = number.to_string();
        updates.translate(&json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "x"}));
    }
    updates.translate(&chunk("end", Some("m")));
    assert!(updates.final_text().is_some_and(|text| text.ends_with("end")));
}

#[test]
fn the_messages_of_claude_code_tell_tokens_and_their_model() {
    let said = |id: &str, model: &str, input: u64| {
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": id,
            "role": "assistant", "model": model, "content": [{"type": "text", "text": "x"}],
            "usage": {"input_tokens": input, "output_tokens": 1}}})
    };
    let used = |input: u64, output: u64| {
        let tokens = Some(Tokens { input, output, ..Tokens::default() });
        Event::Usage { usage: Usage { tokens, ..Usage::default() } }
    };
    let model = Some("opus".to_owned());
    let session = Event::Session { id: "s".to_owned(), model };
    let mut updates = UpdateTranslator::default();
    assert_eq!(updates.translate_claude(&said("a", "opus", 10), Some("s")), [session, used(10, 1)]);
    // Each block of a message comes with the figures of the whole.
    assert_eq!(updates.translate_claude(&said("a", "opus", 10), Some("s")), []);
    assert_eq!(updates.translate_claude(&said("b", "opus", 5), Some("s")), [used(15, 2)]);
    assert_eq!(updates.translate_claude(&said("c", SYNTHETIC, 0), Some("s")), [used(15, 3)]);
    for nonsense in [json!(null), json!([1]), json!({"type": "assistant"}), json!({"message": 7})] {
        assert_eq!(updates.translate_claude(&nonsense, Some("s")), [], "{nonsense}");
    }
    assert_eq!(updates.final_text(), None, "its words come by the protocol");
}
