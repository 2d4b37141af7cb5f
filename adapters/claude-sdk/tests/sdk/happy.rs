//! Iterations that end well.

use ralph_orchestrator_contract::{Budget, ClaimKind, Event, Tokens, Usage, Usd};
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};
use serde_json::json;

use crate::harness::{Harness, RecordingSink, answers, contexts, cost, notes};

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
    let whole = Usage { tokens: Some(tokens), cost: Some(cost(tokens)), estimated: false };
    assert_eq!(report.usage, whole);
    assert_eq!(report.exit.as_deref(), Some("exit 0"));
    assert!(report.left_behind.is_empty() && report.denied.is_empty());
    let events = sink.events().clone();
    let session = events.iter().find_map(|event| match event {
        Event::Session { id, .. } => Some(id.clone()),
        _ => None,
    });
    assert_eq!(session, report.session);
    let call = |event: &Event| matches!(event, Event::ToolCall { name, .. } if name == "Write");
    assert_eq!(events.iter().filter(|event| call(event)).count(), 1);
    let texts = events.iter().filter(|event| matches!(event, Event::Text { .. }));
    assert_eq!(texts.count(), 2, "no text is told twice");
    // Live: the first message's true output figure and cost come before the last message.
    let usages = sink.usages();
    assert!(usages.iter().any(|usage| usage.tokens == Some(first)), "{usages:?}");
    assert!(usages.iter().any(|usage| usage.cost == Some(cost(first))), "{usages:?}");
    assert_eq!(usages.last(), Some(&whole));
    let contexts = contexts(&sink);
    assert_eq!(contexts.last(), Some(&(17_320, Some(1_000_000))), "{contexts:?}");
}

#[tokio::test]
async fn the_tools_of_the_orchestrator() {
    let tool = |name: &str, input| Turn::tool(&format!("mcp__ralph__{name}"), &input);
    let script = Script::new()
        .then(tool("note", json!({"text": "the key is under the mat"})))
        .then(tool("status", json!({})))
        .then(tool("need_human", json!({"reason": "which colour?"})))
        .then(tool("claim_complete", json!({"message": "all of it"})))
        .then(Turn::text("That is all."));
    let mut harness = Harness::new(script);
    harness.budget = Budget { cost: Usd::from_dollars(2.0), tokens: Some(5000), time: None };
    let sink = RecordingSink::new();
    let report = harness.run(json!({"validate_in_session": false}), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("That is all."));
    assert_eq!(notes(&sink), ["the key is under the mat"]);
    let claims: Vec<_> = sink
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Claim { kind, text } => Some((*kind, text.clone())),
            _ => None,
        })
        .collect();
    let expected = [(ClaimKind::NeedsHuman, "which colour?"), (ClaimKind::Complete, "all of it")];
    assert_eq!(claims, expected.map(|(kind, text)| (kind, text.to_owned())));
    let requests = harness.server.main_requests();
    let reported = answers(&requests[4].body);
    for part in [
        "Noted.",
        "\\\"iteration\\\":1",
        "\\\"cost_left_usd\\\":1.9",
        "\\\"tokens_left\\\":4",
        "A human will be asked",
        "validated when this session has ended",
    ] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    assert!(sink.preview_requests().is_empty());
}

#[tokio::test]
async fn a_prompt_of_two_mebibytes_arrives() {
    let harness = Harness::new(Script::new().then(Turn::text("read")));
    let line = "{x} $HOME {{y}} \"quoted\" `ticks` ünïcödé \u{1f980}\\n\n";
    let prompt = line.repeat(2 * 1024 * 1024 / line.len() + 1);
    let task = harness.task(prompt.as_bytes());
    harness.run_task(json!({}), task, &RecordingSink::new()).await.unwrap();
    let requests = harness.server.main_requests();
    let body = &requests[0].body["messages"][0]["content"];
    let blocks = body.as_array().cloned().unwrap_or_else(|| vec![json!({"text": body})]);
    let received = blocks.iter().filter_map(|block| block["text"].as_str());
    assert_eq!(received.max_by_key(|text| text.len()).unwrap().trim_end(), prompt.trim_end());
}

#[tokio::test]
async fn failed_requests_and_broken_streams_are_tried_again() {
    let harness =
        Harness::new(Script::new().then(Reply::error(529, "Overloaded")).then(Turn::text("fine")));
    let sink = RecordingSink::new();
    let report = harness.run(json!({}), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("fine"));
    let waited = |event: &Event| matches!(event, Event::Waiting { delay_ms: Some(_), .. });
    assert_eq!(sink.events().iter().filter(|event| waited(event)).count(), 1);
    for fault in [Fault::Cut, Fault::Error] {
        let broken = Turn::text("never heard").fault(fault);
        let harness = Harness::new(Script::new().then(broken).forever(Turn::text("whole")));
        let report = harness.run(json!({}), &RecordingSink::new()).await.unwrap();
        assert_eq!(report.final_text.as_deref(), Some("whole"), "{fault:?}");
        assert!(report.usage.cost.unwrap() >= cost(harness.server.served()));
    }
}

#[tokio::test]
async fn options_reach_the_model() {
    let harness = Harness::new(Script::new().then(Turn::text("ok")));
    let config = json!({"model": "claude-haiku-4-5", "permissions": {"deny": ["WebSearch", "Bash"]},
        "max_turns": 5, "args": ["--append-system-prompt", "Speak Latin."]});
    harness.run(config, &RecordingSink::new()).await.unwrap();
    let request = &harness.server.main_requests()[0];
    assert!(request.model().starts_with("claude-haiku-4-5"), "{}", request.model());
    assert!(request.body["system"].to_string().contains("Speak Latin."));
    let tools = request.body["tools"].to_string();
    assert!(tools.contains("\"Write\"") && tools.contains("mcp__ralph__claim_complete"));
    assert!(!tools.contains("\"Bash\"") && !tools.contains("AskUserQuestion"));
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

#[tokio::test]
async fn is_really_claude() {
    let harness = Harness::new(Script::new());
    let agent = harness.agent(json!({"model": "sonnet"}));
    let found = agent.check(&harness.env).await.unwrap();
    assert!(found.starts_with("2.1.197 (Claude Code) at /"), "{found}");
    let can = agent.describe().capabilities;
    assert!(can.context && can.handoff && can.in_session_validation && can.interrupt && can.cost);
    let config = json!({"handoff_at": "none", "max_in_session_rejections": 0});
    let can = harness.agent(config).describe().capabilities;
    assert!(!can.handoff && !can.in_session_validation);
    assert!(harness.server.requests().is_empty(), "a check spends nothing");
}
