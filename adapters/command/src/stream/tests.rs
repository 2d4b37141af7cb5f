//! Rules and the streams that they read.

use proptest::prelude::*;
use ralph_adapter_common::{
    LineHandler, LineParser as _, LineReader, MAX_LINE, ProcessEnd, ProcessHandler as _,
};
use ralph_orchestrator_contract::{
    AgentError, BuildError, ErrorClass, Event, Report, Tokens, Usage, Usd,
};
use serde_json::{Value, json};

use super::{Rules, StreamKeys, StreamParser};

fn rules(list: &Value) -> Result<Rules, BuildError> {
    let keys: StreamKeys = ralph_orchestrator_contract::parse_config(json!({"rule": list}))?;
    Rules::new(keys)
}

fn parser(list: &Value) -> StreamParser {
    StreamParser::new(rules(list).unwrap())
}

/// Reads whole lines by a list of rules.
fn read(list: &Value, lines: &[Value]) -> (Vec<Event>, Result<Report, AgentError>) {
    let mut parser = parser(list);
    let events = lines.iter().flat_map(|line| parser.line(&line.to_string())).collect();
    (events, parser.account("exit 0"))
}

/// Writes each event as JSON.
fn events(list: &Value, line: Value) -> Value {
    json!(read(list, &[line]).0)
}

#[test]
fn mistakes_are_named_by_key_and_path() {
    for (rule, key, message) in [
        (json!({}), "stream.rule.0", "maps nothing"),
        (json!({"when": {"type": "x"}}), "stream.rule.0", "maps nothing"),
        (json!({"end": true}), "stream.rule.0", "`end` would hold for every line"),
        (json!({"failure": {}}), "stream.rule.0", "`failure` would hold for every line"),
        (json!({"text": "@.text"}), "stream.rule.0.text", "`@.text` begins with `@`"),
        (json!({"when": {"@.a": 1}, "text": "$.b"}), "stream.rule.0.when", "`@.a` begins with `@`"),
        (
            json!({"tool_call": {"name": "n", "input": "@"}}),
            "stream.rule.0.tool_call.input",
            "`@` begins with `@`",
        ),
        (json!({"each": "@.a", "text": "@.b"}), "stream.rule.0.each", "has to begin with `$`"),
        (
            json!({"each": "a[*]", "text": "@.b", "usage": {"counts": "cumulative", "cost": "c"}}),
            "stream.rule.0.usage.cost",
            "`c` would be read again for each value",
        ),
        (
            json!({"rate_window": {"name": "5 h", "used": "u", "used_unit": "share"}}),
            "stream.rule.0.rate_window.name",
            "lower case",
        ),
        (
            json!({"has": ["e"], "failure": {"reset": "r"}}),
            "stream.rule.0.failure.reset",
            "`reset_unit`",
        ),
    ] {
        let error = rules(&json!([rule])).unwrap_err();
        assert_eq!(error.key.join("."), key, "{rule}: {error}");
        assert!(error.message.contains(message), "{rule}: {error}");
    }
    for (rule, key, message) in [
        (json!({"text": "$.a..b"}), "rule.0.text", "at character 5"),
        (json!({"when": {"a": [1]}, "text": "b"}), "rule.0.when.a", "expected a string, a number"),
        (json!({"when": {"a]": 1}, "text": "b"}), "rule.0.when", "`a]` is wrong at character 2"),
        (json!({"usage": {"input": "a"}}), "rule.0.usage", "missing field `counts`"),
        (json!({"usage": {"counts": "often"}}), "rule.0.usage.counts", "unknown variant"),
        (
            json!({"context": {"used": "a", "window": "$["}}),
            "rule.0.context.window",
            "at character 3",
        ),
    ] {
        let error = rules(&json!([rule])).unwrap_err();
        assert!(error.key.join(".").starts_with(key), "{rule}: {:?} {error}", error.key);
        assert!(error.message.contains(message), "{rule}: {error}");
    }
    assert_eq!(rules(&json!([])).unwrap_err().key.join("."), "stream.rule");
}

#[test]
fn a_rule_is_for_the_lines_that_fit_all_its_conditions() {
    let line = json!({"type": "a", "n": 1.0, "ok": true, "none": null, "l": [{"k": "x"}, {"k": "y"}], "t": "said"});
    for (conditions, fits) in [
        (json!({}), true),
        (json!({"when": {"type": "a"}}), true),
        (json!({"when": {"$.type": "b"}}), false),
        (json!({"when": {"n": 1}}), true),
        (json!({"when": {"n": 2}}), false),
        (json!({"when": {"n": "1"}}), false),
        (json!({"when": {"ok": true}}), true),
        (json!({"when": {"ok": false}}), false),
        (json!({"when": {"$.l[*].k": "y"}}), true),
        (json!({"when": {"$.l[*].k": "z"}}), false),
        (json!({"when": {"type": "a", "ok": false}}), false),
        (json!({"has": ["type", "$.l[1]"]}), true),
        (json!({"has": ["type", "none"]}), false),
        (json!({"when": {"type": "a"}, "has": ["missing"]}), false),
    ] {
        let mut rule = conditions.clone();
        rule["text"] = json!("t");
        let said = events(&json!([rule]), line.clone());
        let expected = if fits { json!([{"type": "text", "text": "said"}]) } else { json!([]) };
        assert_eq!(said, expected, "{conditions}");
    }
}

#[test]
fn each_key_makes_its_event() {
    for (rule, line, expected) in [
        (json!({"thinking": "t"}), json!({"t": "hm"}), json!([{"type": "thinking", "text": "hm"}])),
        (
            json!({"session": "s", "model": "m"}),
            json!({"s": "1", "m": "big"}),
            json!([{"type": "session", "id": "1", "model": null}, {"type": "session", "id": "1", "model": "big"}]),
        ),
        (
            json!({"tool_call": {"id": "id", "name": "tool", "input": "args"}}),
            json!({"id": 7, "tool": "sh", "args": {"c": "ls"}}),
            json!([{"type": "tool_call", "id": "7", "name": "sh", "input": {"c": "ls"}}]),
        ),
        // A call without a name is none.
        (json!({"tool_call": {"id": "id", "name": "tool"}}), json!({"id": "7"}), json!([])),
        (
            json!({"tool_result": {"id": "id", "text": "out", "is_error": "bad"}}),
            json!({"id": "7", "out": {"a": 1}, "bad": true}),
            json!([{"type": "tool_result", "id": "7", "is_error": true, "text": "{\"a\":1}"}]),
        ),
        (
            json!({"tool_result": {"text": "out", "is_error": true}}),
            json!({"out": "no"}),
            json!([{"type": "tool_result", "id": "", "is_error": true, "text": "no"}]),
        ),
        (
            json!({"context": {"used": "n", "window": 200}}),
            json!({"n": 7}),
            json!([{"type": "context", "used": 7, "window": 200}]),
        ),
        (
            json!({"context": {"used": "n[*]", "window": "w"}}),
            json!({"n": [7, 1], "w": 9}),
            json!([{"type": "context", "used": 8, "window": 9}]),
        ),
        (
            json!({"rate_window": {"name": "weekly", "used": "u", "used_unit": "percent", "reset": "r", "reset_unit": "epoch_seconds"}}),
            json!({"u": 50, "r": 8}),
            json!([{"type": "rate_window", "name": "weekly", "used": 0.5, "resets_at_ms": 8000}]),
        ),
        (
            json!({"question": "q"}),
            json!({"q": "which?"}),
            json!([{"type": "claim", "kind": "needs_human", "text": "which?"}]),
        ),
        (
            json!({"each": "$.parts[*]", "when": {"@.kind": "text", "from": "me"}, "text": "@.text"}),
            json!({"from": "me", "parts": [{"kind": "text", "text": "a"}, {"kind": "x", "text": "b"}, {"kind": "text", "text": "c"}]}),
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "c"}]),
        ),
    ] {
        assert_eq!(events(&json!([rule]), line), expected, "{rule}");
    }
}

fn tokens(input: u64, output: u64, cache_read: u64) -> Tokens {
    Tokens { input, output, cache_read, cache_write: 0 }
}

#[test]
fn figures_are_added_up_or_replaced_as_the_rule_says() {
    let rule = |counts: &str, includes: bool| json!([{"usage": {"counts": counts, "input": "i", "output": "o", "cache_read": "c[*]", "input_includes_cache": includes, "cost": "usd"}}]);
    let lines = [
        json!({"i": 100, "o": 1, "c": [30, 10], "usd": 0.25}),
        json!({"i": 110, "o": 2, "usd": "0.5"}),
        json!({"other": 1}),
    ];
    for (counts, includes, expected, cost) in [
        ("per_message", false, tokens(210, 3, 40), 0.75),
        ("per_message", true, tokens(170, 3, 40), 0.75),
        ("cumulative", false, tokens(110, 2, 40), 0.5),
    ] {
        let (events, result) = read(&rule(counts, includes), &lines);
        let usage = result.unwrap().usage;
        let cost = Usd::from_dollars(cost);
        assert_eq!(usage, Usage { tokens: Some(expected), cost, estimated: false }, "{counts}");
        assert_eq!(events.last(), Some(&Event::Usage { usage }));
        assert_eq!(events.len(), 2, "what changes nothing is no event");
    }
}

#[test]
fn a_mismatch_is_named_once_and_costs_no_other_figure() {
    let list = json!([{"usage": {"counts": "per_message", "input": "i", "output": "o", "cost": "usd"}, "text": "t"}]);
    let line = json!({"i": "many", "o": 5, "usd": 0.1, "t": 7});
    let (events, result) = read(&list, &[line.clone(), line]);
    let warnings = events.iter().filter_map(|event| match event {
        Event::Warning { message } => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(
        warnings.collect::<Vec<_>>(),
        [
            "[agent.config.stream] rule 1, `text`: expected a string at `t`, found 7",
            "[agent.config.stream] rule 1, `usage.input`: expected a whole number that is not \
             negative at `i`, found \"many\"",
        ]
    );
    let usage = result.unwrap().usage;
    assert_eq!((usage.tokens, usage.cost), (Some(tokens(0, 10, 0)), Usd::from_dollars(0.2)));
}

#[test]
fn the_final_text_is_what_the_agent_said_last() {
    let list = json!([
        {"when": {"type": "begin"}, "new_message": true},
        {"when": {"type": "text"}, "text": "t"},
        {"when": {"type": "tool"}, "tool_call": {"name": "n"}},
        {"when": {"type": "answer"}, "final_text": "t"},
    ]);
    let text = |text: &str| json!({"type": "text", "t": text});
    let (begin, tool) = (json!({"type": "begin"}), json!({"type": "tool", "n": "sh"}));
    let answer = json!({"type": "answer", "t": "whole"});
    for (lines, expected) in [
        (vec![text("a"), text("b\n"), text("c")], Some("ab\nc")),
        (vec![text("a"), tool.clone(), text("b")], Some("b")),
        (vec![text("a"), begin, text("b"), text("c")], Some("bc")),
        // A tool after the last words does not unsay them.
        (vec![text("a"), tool.clone()], Some("a")),
        (vec![text("a"), answer, text("b")], Some("whole")),
        (vec![tool], None),
    ] {
        let report = read(&list, &lines).1.unwrap();
        assert_eq!(report.final_text.as_deref(), expected, "{lines:?}");
    }
}

#[test]
fn how_it_ends_is_what_the_last_of_its_lines_says() {
    let list = json!([
        {"when": {"type": "error"}, "failure": {"message": "m", "reset": "r", "reset_unit": "epoch_seconds"}},
        {"when": {"type": "login"}, "failure": {"class": "unauthenticated", "message": "m"}},
        {"when": {"type": "limit"}, "failure": {"class": "rate_limited", "reset": "r", "reset_unit": "epoch_seconds"}},
        {"when": {"type": "text"}, "text": "t"},
        {"when": {"type": "done"}, "end": true},
        {"when": {"type": "done", "failed": true}, "failure": {}},
    ]);
    let (done, text) = (json!({"type": "done"}), json!({"type": "text", "t": "x"}));
    let error = |message: &str| json!({"type": "error", "m": message, "r": 5});
    let limited = ErrorClass::RateLimited { until_ms: Some(5000) };
    for (lines, class, message) in [
        (vec![error("HTTP 429 too many requests")], limited.clone(), "too many"),
        (vec![json!({"type": "limit", "r": 5})], limited, "without a reason"),
        (vec![json!({"type": "login", "m": "gone"})], ErrorClass::Unauthenticated, "gone"),
        (vec![error("boom")], ErrorClass::Crashed, "boom"),
        (vec![text.clone()], ErrorClass::Crashed, "without a line for which a rule has `end"),
        // It began another turn.
        (vec![done.clone(), text.clone()], ErrorClass::Crashed, "`end = true`"),
        (vec![json!({"type": "done", "failed": true})], ErrorClass::Crashed, "without a reason"),
        (vec![json!({"type": "news"}), json!(7)], ErrorClass::Crashed, "agents try"),
    ] {
        let failure = read(&list, &lines).1.unwrap_err();
        assert_eq!(failure.class, class, "{lines:?}");
        assert!(failure.message.contains(message), "{lines:?}: {failure}");
    }
    // What was tried again.
    assert!(read(&list, &[error("boom"), text, done]).1.is_ok());
}

/// Of a recording without reasoning or failures, rules make what the built-in format makes of it.
#[test]
fn a_recording_of_a_real_program_is_read_by_rules() {
    let list = json!([
        {"session": "$.sessionID"},
        {"when": {"type": "step_start"}, "new_message": true},
        {"when": {"type": "text"}, "text": "$.part.text"},
        {"when": {"type": "tool_use"}, "tool_call": {"id": "$.part.callID", "name": "$.part.tool", "input": "$.part.state.input"},
            "tool_result": {"id": "$.part.callID", "text": "$.part.state.output"}},
        {"when": {"type": "step_finish"}, "usage": {"counts": "per_message", "input": "$.part.tokens.input", "output": "$.part.tokens.output",
            "cache_read": "$.part.tokens.cache.read", "cache_write": "$.part.tokens.cache.write", "cost": "$.part.cost"}},
        {"when": {"type": "step_finish", "$.part.reason": "stop"}, "end": true},
    ]);
    let recording = include_str!("../../tests/transcripts/opencode.jsonl");
    let (mut configured, mut built_in) =
        (parser(&list), ralph_adapter_common::opencode::OpenCodeParser::default());
    for line in recording.lines() {
        assert_eq!(configured.line(line), built_in.line(line), "{line}");
        assert_eq!(configured.is_done(), built_in.is_done());
    }
    let (configured, built_in) = (configured.account("exit 0"), built_in.account("exit 0"));
    assert_eq!(configured.unwrap(), built_in.unwrap());
}

/// Rules in which every key stands.
fn every_key() -> Value {
    json!([
        {"session": "a", "model": "b", "text": "$[*]", "thinking": "c", "final_text": "$.a[*]", "question": "b[0]"},
        {"each": "$[*]", "has": ["@.a"], "tool_call": {"id": "@.b", "name": "@.a", "input": "@"},
            "tool_result": {"id": "@.a", "text": "@.b", "is_error": "@.c"}},
        {"usage": {"counts": "per_message", "input": "a", "output": "$[*]", "cache_read": "$.b[*]", "cache_write": "c",
            "input_includes_cache": true, "cost": "a", "cost_unit": "cents"}},
        {"usage": {"counts": "cumulative", "input": "b", "cost": "$.c[*]", "cost_unit": "micro_usd"}},
        {"context": {"used": "a", "window": "b"},
            "rate_window": {"name": "w", "used": "b", "used_unit": "percent", "reset": "c", "reset_unit": "seconds"}},
        {"when": {"a": true}, "new_message": true, "failure": {"message": "b", "reset": "c", "reset_unit": "timestamp"}},
        {"when": {"b": 1}, "end": true},
    ])
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (u64::MAX - 3..=u64::MAX).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(1)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn is_at_least(usage: Usage, before: Usage) -> bool {
    usage.max(before) == usage
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_lines_do_harm(
        lines in prop::collection::vec(values(), 1..12),
        noise in prop::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        bytes.truncate(end.index(bytes.len()) + 1);
        let at = at.index(bytes.len());
        bytes.splice(at..at, noise);
        let (mut handler, mut reader) = (LineHandler::new(parser(&every_key())), LineReader::default());
        for line in reader.push(&bytes).into_iter().chain(reader.finish()) {
            handler.read_line(line.into_whole().unwrap());
        }
        let (mut usage, mut warnings) = (Usage::default(), 0);
        for event in handler.actions().take_events() {
            match event {
                Event::Usage { usage: next } => {
                    prop_assert!(is_at_least(next, usage), "{next:?} after {usage:?}");
                    usage = next;
                }
                Event::RateWindow { used, .. } => prop_assert!(used >= 0.0),
                Event::Warning { .. } => warnings += 1,
                _ => {}
            }
        }
        prop_assert!(warnings < 40, "one for each key at most: {warnings}");
        let end = ProcessEnd { success: true, ..ProcessEnd::default() };
        let report = handler.finish(end).unwrap_or_else(|error| *error.report);
        prop_assert_eq!(report.usage, usage);
    }
}

#[test]
fn figures_do_not_overflow() {
    let list = json!([{"usage": {"counts": "per_message", "input": "n", "cost": "usd"}}]);
    let line = json!({"n": u64::MAX, "usd": 1e300});
    let usage = read(&list, &[line.clone(), line]).1.unwrap().usage;
    assert_eq!((usage.tokens, usage.cost), (Some(tokens(u64::MAX, 0, 0)), Some(Usd::MAX)));
}

#[test]
fn the_longest_line_is_read_in_bounded_time() {
    let element = r#"{"a":"x"},"#;
    let fill = element.repeat(MAX_LINE / element.len() - 10);
    let mut parser = parser(&json!([{"each": "$.l[*]", "when": {"$.l[*].a": "y"}, "text": "@.a"}]));
    let line = format!(r#"{{"l":[{}]}}"#, fill.trim_end_matches(','));
    assert!(line.len() <= MAX_LINE);
    // Without a bound on visits this takes hours.
    let events = parser.line(&line);
    assert!(
        matches!(&events[..], [Event::Warning { message }] if message.contains("too many values"))
    );
}
