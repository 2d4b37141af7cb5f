//! What is told while the agent runs.

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_orchestrator_contract::{Event, Tokens, Usd};
use serde_json::json;

use super::{read, transcript};

fn events(name: &str) -> Vec<Event> {
    read(&transcript(name)).0
}

fn tokens_reported(events: &[Event]) -> Vec<Tokens> {
    let listed = |event: &Event| match event {
        Event::Usage { usage } => usage.tokens,
        _ => None,
    };
    events.iter().filter_map(listed).collect()
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let mut warnings = Vec::new();
    for event in events {
        if let Event::Warning { message } = event {
            warnings.push(message.as_str());
        }
    }
    warnings
}

#[test]
fn a_whole_session_in_order() {
    let events = events("happy-bypass.jsonl");
    let listed: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::Session { model, .. } => format!("session {}", model.as_deref().unwrap()),
            Event::Text { text } => format!("text {text}"),
            Event::Thinking { text } => format!("thinking {text}"),
            Event::ToolCall { name, .. } => format!("call {name}"),
            Event::ToolResult { is_error, .. } => format!("result {is_error}"),
            Event::Usage { usage } => format!("usage {}", usage.tokens.unwrap().total()),
            Event::Context { used, window } => format!("context {used} of {}", window.unwrap()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        listed,
        [
            "session claude-opus-4-8[1m]",
            "thinking I should write the file.",
            "usage 17001",
            "context 17000 of 1000000",
            "text I'll write the file.",
            "call Write",
            "result false",
            "text Now I'll run it.",
            "usage 34322",
            "context 17320 of 1000000",
            "call Bash",
            "result false",
            "text All done. <promise>COMPLETE: hello.txt written</promise>",
            "usage 51835",
            "context 17512 of 1000000",
            "usage 52072",
        ]
    );
}

#[test]
fn usage_only_grows_and_counts_a_message_once() {
    for name in ["happy-bypass", "partial", "subagent", "qwen", "compact", "sse-error"] {
        let listed = tokens_reported(&events(&format!("{name}.jsonl")));
        assert!(
            listed.windows(2).all(|pair| pair[0].max(pair[1]) == pair[1]),
            "{name}: {listed:?}"
        );
    }
}

#[test]
fn tasks_that_the_agent_stopped_are_left_behind() {
    let task = |status: &str, summary: &str| {
        format!(
            "{{\"type\":\"system\",\"subtype\":\"task_notification\",\"status\":\"{status}\",\"summary\":\"{summary}\"}}\n"
        )
    };
    let result = "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"ok\"}\n";
    let stream = [
        task("completed", "sub"),
        task("stopped", "npm run build"),
        task("stopped", ""),
        result.into(),
    ];
    let (_, end) = read(&stream.concat());
    assert_eq!(end.unwrap().left_behind, ["npm run build", "a background task"]);
}

#[test]
fn a_later_turn_takes_nothing_back() {
    let result = |input: u64, output: u64| {
        let usage = format!("{{\"input_tokens\":{input},\"output_tokens\":{output}}}");
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"usage\":{usage},\"total_cost_usd\":0.5}}\n"
        )
    };
    let message =
        "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":7}}}\n";
    let stream = [
        &result(100, 20),
        "{\"type\":\"system\",\"subtype\":\"init\"}\n",
        message,
        &result(50, 30),
    ];
    let (events, end) = read(&stream.concat());
    let listed: Vec<_> = tokens_reported(&events).iter().map(|t| (t.input, t.output)).collect();
    assert_eq!(listed, [(100, 20), (100, 20), (100, 30)]);
    assert_eq!(end.unwrap().usage.tokens.map(|t| (t.input, t.output)), Some((100, 30)));
    // The process ended in its second turn: what the first one cost is known all the same.
    let (_, end) = read(&stream[..3].concat());
    let usage = end.unwrap_err().report.usage;
    assert_eq!(
        (usage.tokens.map(|t| t.output), usage.cost.map(Usd::dollars)),
        (Some(20), Some(0.5))
    );
}

#[test]
fn the_providers_own_events_bring_the_true_output() {
    let listed = tokens_reported(&events("partial.jsonl"));
    let last_before_result = listed[listed.len() - 2];
    assert_eq!(
        last_before_result,
        listed[listed.len() - 1],
        "nothing is left for the result to add"
    );
}

#[test]
fn pieces_of_a_streamed_message_are_not_repeated() {
    let texts = events("partial.jsonl").into_iter().filter(|e| matches!(e, Event::Text { .. }));
    assert_eq!(texts.count(), 3);
}

#[test]
fn retries_are_waiting() {
    let waits: Vec<Event> = events("e429-once.jsonl")
        .into_iter()
        .filter(|e| matches!(e, Event::Waiting { .. }))
        .collect();
    let reason = "rate_limit, HTTP status 429; retry 1 of 10".to_owned();
    assert_eq!(waits[0], Event::Waiting { reason, delay_ms: Some(1000) });
    assert_eq!(waits.len(), 2);
}

#[test]
fn another_model_and_a_compaction_are_warned_of() {
    let events = events("fallback-ok.jsonl");
    let expected = "the agent goes on with model claude-haiku-4-5 instead of claude-opus-4-8[1m]";
    assert_eq!(warnings(&events), [expected]);
    let compaction = json!({"type": "system", "subtype": "compact_boundary",
        "compact_metadata": {"trigger": "manual", "pre_tokens": 111_030, "post_tokens": 585}});
    let events = ClaudeParser::new().line(&compaction.to_string());
    assert_eq!(warnings(&events), ["the agent compacted its context from 111030 to 585 tokens"]);
}

#[test]
fn a_failed_tool_is_reported_and_a_subagents_words_are_not() {
    let failed = events("toolerror.jsonl");
    let text = "Exit code 3".to_owned();
    let id = "toolu_6cb42d0b2faf41d0af6bdf".to_owned();
    assert!(failed.contains(&Event::ToolResult { id, is_error: true, text }));
    let subagent = json!({"type": "assistant", "parent_tool_use_id": "toolu_1", "message": {"id":
        "s", "content": [{"type": "text", "text": "sub"}, {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {}}]}});
    let events = ClaudeParser::new().line(&subagent.to_string());
    assert!(matches!(events.as_slice(), [Event::ToolCall { .. }]), "{events:?}");
}

#[test]
fn long_tool_results_are_cut_at_a_character() {
    let long = "ß".repeat(100_000);
    let result = json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": long}]}]}});
    let events = ClaudeParser::new().line(&result.to_string());
    let [Event::ToolResult { text, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(text.len(), 64 * 1024 + '…'.len_utf8());
}

#[test]
fn what_cannot_be_read_is_counted_and_passed_over() {
    let mut parser = ClaudeParser::new();
    assert!(parser.line("").is_empty());
    assert_eq!(warnings(&parser.line("npm notice")).len(), 1);
    assert_eq!(warnings(&parser.line("{\"type\":\"assist")).len(), 0, "warned of once");
    assert!(parser.line("[]").is_empty());
    assert_eq!(parser.not_json(), 3);
    assert!(parser.line(r#"{"type":"system","subtype":"status"}"#).is_empty());
    assert!(parser.line(r#"{"type":"later"}"#).is_empty());
    assert!(parser.line("{}").is_empty());
    let kinds: Vec<(&str, u64)> = parser.unread().iter().map(|(k, n)| (k.as_str(), *n)).collect();
    assert_eq!(kinds, [("", 1), ("later", 1), ("system/status", 1)]);
    // Two messages whose line break was lost, the second followed by rubbish.
    let text = |text: &str| json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}});
    let events = parser.line(&format!("{}{} junk", text("a"), text("b")));
    assert_eq!(events.len(), 2);
    assert_eq!(parser.not_json(), 4);
}

#[test]
fn one_odd_field_costs_only_itself() {
    let odd = json!({"type": "assistant", "error": 7, "parent_tool_use_id": {}, "message": {
        "id": [], "usage": {"input_tokens": "many", "output_tokens": 3.0, "cache_read_input_tokens": -1},
        "content": [{"type": "text"}, 3, {"type": "text", "text": "heard"}, {"type": "new"}]}});
    let events = ClaudeParser::new().line(&odd.to_string());
    assert_eq!(events[0], Event::Text { text: "heard".to_owned() });
    assert_eq!(tokens_reported(&events), [Tokens { output: 3, ..Tokens::default() }]);
    let end = json!({"type": "result", "is_error": false, "result": "ok", "total_cost_usd": "free",
        "modelUsage": {"a": 1, "b": {"inputTokens": 5, "outputTokens": null}},
        "permission_denials": [7, {"tool_name": "Bash"}], "errors": "none"});
    let report = read(&end.to_string()).1.unwrap();
    assert_eq!(report.usage.tokens.unwrap().input, 5);
    assert_eq!((report.usage.cost, report.denied.len()), (None, 1));
}

#[test]
fn servers_of_tools_that_did_not_start_are_a_warning_once() {
    let init = |servers: serde_json::Value| {
        serde_json::json!({"type": "system", "subtype": "init", "session_id": "s", "mcp_servers": servers})
            .to_string()
    };
    let servers = serde_json::json!([
        {"name": "files", "status": "connected"},
        {"name": "later", "status": "pending"},
        {"name": "broken", "status": "failed"},
        {"name": "locked", "status": "needs-auth"},
        {"status": "failed"}, {}, 7,
    ]);
    let mut parser = ClaudeParser::new();
    let events = parser.line(&init(servers.clone()));
    let message = "the agent works without the tools of these MCP servers, which did not start: \
                   broken (failed), locked (needs-auth), ? (failed)";
    assert_eq!(warnings(&events), [message]);
    // The same session goes on with another turn.
    assert_eq!(warnings(&parser.line(&init(servers))), [""; 0]);
    for fine in ["[]", "null", "{\"a\": 1}", "[{\"name\": \"a\", \"status\": \"connected\"}]"] {
        let servers = serde_json::from_str(fine).unwrap();
        assert_eq!(warnings(&ClaudeParser::new().line(&init(servers))), [""; 0], "{fine}");
    }
    let many: Vec<_> = (0..10_000)
        .map(|n| serde_json::json!({"name": n.to_string(), "status": "failed"}))
        .collect();
    let events = ClaudeParser::new().line(&init(many.into()));
    assert!(warnings(&events)[0].len() < 1000);
}
