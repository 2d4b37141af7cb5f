//! How full the context is.

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::claude_stream::{ClaudeParser, Context};
use ralph_orchestrator_contract::Event;
use serde_json::{Value, json};

use super::{read, transcript};

/// What is told of the context after these messages.
fn read_all(messages: &[Value]) -> (Vec<(u64, Option<u64>)>, ClaudeParser) {
    let mut parser = ClaudeParser::new();
    let events = messages.iter().flat_map(|message| parser.line(&message.to_string()));
    let events: Vec<_> = events.collect();
    (contexts(&events), parser)
}

fn contexts(events: &[Event]) -> Vec<(u64, Option<u64>)> {
    let context = |event: &Event| match event {
        Event::Context { used, window } => Some((*used, *window)),
        _ => None,
    };
    events.iter().filter_map(context).collect()
}

fn init(model: &str) -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": model})
}

fn says(id: &str, model: &str, parent: Option<&str>, input: u64) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": parent, "message": {"id": id, "model": model,
        "content": [], "usage": {"input_tokens": 10, "cache_read_input_tokens": input - 10,
        "output_tokens": 1}}})
}

fn result(windows: &Value) -> Value {
    json!({"type": "result", "subtype": "success", "result": "x", "modelUsage": windows})
}

#[test]
fn only_the_main_conversation_and_real_models_count() {
    let messages = [
        init("m"),
        says("1", "m", None, 1000),
        says("2", "m", Some("toolu_1"), 9000),
        says("3", "<synthetic>", None, 5000),
        json!({"type": "assistant", "message": {"id": "4", "model": "m", "usage": {"input_tokens": 0}}}),
        says("1", "m", None, 1000),
        says("5", "m", None, 2000),
    ];
    assert_eq!(read_all(&messages).0, [(1000, None), (2000, None)]);
}

#[test]
fn streamed_messages_tell_at_their_beginning() {
    let start = |parent: Option<&str>| {
        json!({"type": "stream_event", "parent_tool_use_id": parent, "event": {"type": "message_start",
            "message": {"id": "1", "model": "m", "usage": {"input_tokens": 700, "output_tokens": 1}}}})
    };
    let messages = [init("m"), start(Some("toolu_1")), start(None), says("1", "m", None, 700)];
    assert_eq!(read_all(&messages).0, [(700, None)]);
}

#[test]
fn an_answer_goes_before_a_result_and_that_before_the_name() {
    let windows = json!({"m[1m]": {"contextWindow": 500_000}, "other": {"contextWindow": 7}});
    let messages = [init("m[1m]"), says("1", "m", None, 1000), result(&windows)];
    let (before, mut parser) = read_all(&messages);
    assert_eq!(before, [(1000, Some(1_000_000)), (1000, Some(500_000))]);
    let answered = parser.window(200_000);
    assert_eq!(answered, Some(Event::Context { used: 1000, window: Some(200_000) }));
    assert_eq!(parser.window(200_000), None, "nothing new");
    let context = parser.context();
    assert_eq!(context, Some(Context { used: 1000, window: Some(200_000) }));
    assert_eq!(context.unwrap().share(), Some(0.005));
    // A result does not overrule the answer, but another model makes it void.
    assert!(
        parser
            .line(&result(&windows).to_string())
            .iter()
            .all(|e| !matches!(e, Event::Context { .. }))
    );
    let after = [init("n"), says("2", "n", None, 3000)];
    let events: Vec<_> = after.iter().flat_map(|line| parser.line(&line.to_string())).collect();
    assert_eq!(contexts(&events), [(3000, None)]);
}

#[test]
fn an_answer_before_the_first_turn_stands() {
    let mut parser = ClaudeParser::new();
    assert_eq!(parser.window(200_000), None, "nothing is known to be in it");
    let lines = [init("m"), says("1", "m", None, 1000)];
    let events: Vec<_> = lines.iter().flat_map(|line| parser.line(&line.to_string())).collect();
    assert_eq!(contexts(&events), [(1000, Some(200_000))]);
    assert_eq!(parser.window(0), Some(Event::Context { used: 1000, window: None }));
    assert_eq!(parser.context().unwrap().share(), None);
}

#[test]
fn a_compaction_begins_anew() {
    let events = read(&transcript("compact.jsonl")).0;
    let used: Vec<u64> = contexts(&events).into_iter().map(|(used, _)| used).collect();
    let falls = used.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(falls > 0, "{used:?}");
}

#[test]
fn a_turn_that_was_ended_on_purpose_is_no_failure_and_says_nothing() {
    let aborted = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "terminal_reason": "aborted_tools", "total_cost_usd": 0.5});
    let finished = |line: &Value| {
        let mut parser = ClaudeParser::new();
        parser.line(&line.to_string());
        parser.finish_handed_off()
    };
    let report = finished(&aborted).unwrap();
    assert_eq!((report.final_text, report.usage.cost.unwrap().dollars()), (None, 0.5));
    let notes = json!({"type": "result", "subtype": "success", "result": "notes"});
    assert_eq!(finished(&notes).unwrap().final_text, None);
    assert!(ClaudeParser::new().finish_handed_off().is_ok());
    let limited = json!({"type": "result", "subtype": "success", "is_error": true,
        "api_error_status": 429});
    assert!(finished(&limited).is_err(), "what the provider says still counts");
    assert!(read(&aborted.to_string()).1.is_err());
}

#[test]
fn a_cost_from_elsewhere_only_grows() {
    let usd = |dollars| ralph_orchestrator_contract::Usd::from_dollars(dollars).unwrap();
    let mut parser = ClaudeParser::new();
    assert_eq!(parser.cost(usd(0.0)), None);
    let Some(Event::Usage { usage }) = parser.cost(usd(0.2)) else { panic!("no usage") };
    assert_eq!(usage.cost, Some(usd(0.2)));
    assert_eq!(parser.cost(usd(0.1)), None);
    let last = json!({"type": "result", "subtype": "success", "total_cost_usd": 0.3, "result": ""});
    parser.line(&last.to_string());
    assert_eq!(parser.account("exit 0").unwrap().usage.cost, Some(usd(0.3)));
}
