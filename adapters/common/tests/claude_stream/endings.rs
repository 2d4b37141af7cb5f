//! Every way a stream can end.

use ralph_adapter_common::ProcessEnd;
use ralph_adapter_common::claude_program::conclude;
use ralph_orchestrator_contract::{
    CancelReason, ErrorClass, Leftovers, Report, Tokens, Usage, Usd,
};
use serde_json::{Value, json};

use super::{read, transcript};

const RATE_LIMITED: ErrorClass = ErrorClass::RateLimited { until_ms: None };

fn exited(code: i32) -> ProcessEnd {
    ProcessEnd { exit: format!("exit {code}"), ..ProcessEnd::default() }
}

/// A result like that of a request that failed for good.
fn failed(status: Option<u64>, reason: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": status,
        "result": "API Error", "total_cost_usd": 0, "modelUsage": {}, "terminal_reason": reason})
}

fn synthetic(error: &str) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null, "error": error, "message":
        {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}})
}

fn lines(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("{message}\n")).collect()
}

fn class(stream: &str) -> Option<ErrorClass> {
    read(stream).1.err().map(|error| error.class)
}

#[test]
fn recorded_endings() {
    let agent_limit = Some(ErrorClass::AgentLimit);
    let cases: [(&str, i32, Option<ErrorClass>); 21] = [
        ("happy-bypass", 0, None),
        ("maxturns", 1, agent_limit.clone()),
        ("budget", 1, agent_limit),
        ("e429-once", 0, None),
        ("e529-forever", 1, Some(ErrorClass::Overloaded)),
        ("e500-forever", 1, Some(ErrorClass::Overloaded)),
        ("e401", 1, Some(ErrorClass::Unauthenticated)),
        ("e403", 1, Some(ErrorClass::Unauthenticated)),
        ("e400-credit", 1, Some(ErrorClass::Billing)),
        ("e404-model", 1, Some(ErrorClass::NotFound)),
        ("e400-toolong", 1, Some(ErrorClass::ContextExceeded)),
        ("noauth", 1, Some(ErrorClass::Unauthenticated)),
        ("refusal", 1, Some(ErrorClass::InvalidRequest)),
        ("max-tokens", 0, None),
        ("sse-error", 0, None),
        ("denied", 0, None),
        ("fallback-ok", 0, None),
        // Interrupted by somebody else than the orchestrator.
        ("sigint", 0, Some(ErrorClass::Crashed)),
        ("sigint-tool", 1, Some(ErrorClass::Crashed)),
        ("sigterm-tool", 143, Some(ErrorClass::Crashed)),
        ("qwen", 0, None),
    ];
    for (name, code, expected) in cases {
        let stream = transcript(&format!("{name}.jsonl"));
        let ended = conclude(read(&stream).1, exited(code)).err().map(|error| error.class);
        assert_eq!(ended, expected, "{name}");
        // The exit status changes nothing: it is 0 for an interrupted turn, and after a result the
        // process may have been ended by force.
        let other = conclude(read(&stream).1, exited(1)).err().map(|error| error.class);
        assert_eq!(other, expected, "{name} with another exit status");
        let cancelled = ProcessEnd { cancelled: Some(CancelReason::Signal), ..exited(code) };
        let error = conclude(read(&stream).1, cancelled).unwrap_err();
        assert_eq!(error.class, ErrorClass::Cancelled, "{name} when cancelled");
        assert_eq!(error.report.final_text, None, "{name} when cancelled");
    }
}

#[test]
fn endings_by_fields() {
    let cases = [
        // What was seen on the wire.
        (failed(Some(429), "completed"), "rate_limit", RATE_LIMITED),
        (failed(Some(529), "completed"), "server_error", ErrorClass::Overloaded),
        (failed(Some(500), "completed"), "server_error", ErrorClass::Overloaded),
        (failed(Some(401), "completed"), "authentication_failed", ErrorClass::Unauthenticated),
        (failed(None, "completed"), "authentication_failed", ErrorClass::Unauthenticated),
        (failed(Some(403), "completed"), "oauth_org_not_allowed", ErrorClass::Unauthenticated),
        (failed(Some(400), "completed"), "billing_error", ErrorClass::Billing),
        (failed(Some(404), "completed"), "model_not_found", ErrorClass::NotFound),
        (failed(Some(400), "completed"), "invalid_request", ErrorClass::InvalidRequest),
        (failed(Some(400), "prompt_too_long"), "invalid_request", ErrorClass::ContextExceeded),
        (failed(None, "blocking_limit"), "invalid_request", ErrorClass::ContextExceeded),
        (failed(None, "rapid_refill_breaker"), "", ErrorClass::ContextExceeded),
        (failed(None, "image_error"), "", ErrorClass::InvalidRequest),
        (failed(None, "hook_stopped"), "", ErrorClass::AgentLimit),
        (failed(None, "max_turns"), "", ErrorClass::AgentLimit),
        (failed(None, "completed"), "max_output_tokens", ErrorClass::AgentLimit),
        (failed(None, "completed"), "invalid_request", ErrorClass::InvalidRequest),
        (failed(None, "completed"), "overloaded", ErrorClass::Overloaded),
        (failed(None, "completed"), "rate_limit", RATE_LIMITED),
        (failed(None, "completed"), "unknown", ErrorClass::Crashed),
        (failed(None, "model_error"), "", ErrorClass::Crashed),
        // By the status alone, as from an older version or an imitator.
        (failed(Some(429), "completed"), "", RATE_LIMITED),
        (failed(Some(402), "completed"), "", ErrorClass::Billing),
        (failed(Some(404), "completed"), "", ErrorClass::NotFound),
        (failed(Some(413), "completed"), "", ErrorClass::ContextExceeded),
        (failed(Some(422), "completed"), "", ErrorClass::InvalidRequest),
        (failed(Some(503), "completed"), "unknown", ErrorClass::Overloaded),
    ];
    for (result, error, expected) in cases {
        let stream = lines(&[synthetic(error), result.clone()]);
        assert_eq!(class(&stream), Some(expected), "{error:?} {result}");
    }
}

#[test]
fn no_answer_from_the_provider_is_reported_by_the_retries_before() {
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2,
        "retry_delay_ms": 500, "error_status": null, "error": "unknown"});
    let end = failed(None, "completed");
    let unknown = synthetic("unknown");
    let refused = lines(&[retry.clone(), unknown.clone(), end.clone()]);
    assert_eq!(class(&refused), Some(ErrorClass::Overloaded));
    let mut answer = unknown.clone();
    answer.as_object_mut().unwrap().remove("error");
    let answered_since = lines(&[retry, answer, unknown, end]);
    assert_eq!(class(&answered_since), Some(ErrorClass::Crashed));
}

#[test]
fn an_account_limit_says_until_when() {
    let limit = |status: &str, overage: bool| {
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": status,
            "resetsAt": 1_778_565_600, "rateLimitType": "five_hour", "isUsingOverage": overage}})
    };
    let end = failed(None, "completed");
    let limited = ErrorClass::RateLimited { until_ms: Some(1_778_565_600_000) };
    let said = |messages: &[Value]| class(&lines(messages));
    let words = synthetic("rate_limit");
    assert_eq!(said(&[limit("rejected", false), words, end.clone()]), Some(limited.clone()));
    assert_eq!(said(&[limit("rejected", false), end.clone()]), Some(limited));
    // Lifted again, or served at extra cost: then it was something else.
    let lifted = [limit("rejected", false), limit("allowed", false), end.clone()];
    assert_eq!(said(&lifted), Some(ErrorClass::Crashed));
    assert_eq!(said(&[limit("rejected", true), end]), Some(ErrorClass::Crashed));
    let fine = json!({"type": "result", "subtype": "success", "is_error": false, "result": "ok"});
    assert_eq!(said(&[limit("rejected", false), fine]), None);
}

#[test]
fn words_in_the_text_are_no_evidence() {
    let end = json!({"type": "result", "subtype": "success", "is_error": true,
        "result": "rate limit reached, 429 overloaded, credit balance is too low"});
    assert_eq!(class(&lines(&[end])), Some(ErrorClass::Crashed));
    let fine = json!({"type": "result", "subtype": "success", "is_error": false,
        "result": "API Error: 429 rate_limit"});
    assert_eq!(class(&lines(&[fine])), None);
}

#[test]
fn the_happy_report_is_exact() {
    let survivor = ("deaf".to_owned(), 4711, 12);
    let leftovers = Leftovers::new(vec!["sleep".to_owned()], [survivor.clone()]);
    let end = ProcessEnd { leftovers, ..exited(0) };
    let report = conclude(read(&transcript("happy-bypass.jsonl")).1, end).unwrap();
    let tokens = Tokens { input: 2032, output: 240, cache_read: 34300, cache_write: 15500 };
    assert_eq!(
        report,
        Report {
            final_text: Some("All done. <promise>COMPLETE: hello.txt written</promise>".into()),
            usage: Usage {
                tokens: Some(tokens),
                cost: Usd::from_dollars(0.130_185),
                estimated: false
            },
            session: Some("6f3e7485-fc3d-4300-b149-656b7e9862a5".to_owned()),
            exit: Some("exit 0".to_owned()),
            left_behind: vec!["sleep".to_owned()],
            survived: vec![survivor.into()],
            denied: Vec::new(),
        }
    );
}

#[test]
fn cost_and_tokens_of_all_models_and_subagents() {
    let usage = |name: &str| match read(&transcript(name)).1 {
        Ok(report) => report.usage,
        Err(error) => error.report.usage,
    };
    let subagent = usage("subagent.jsonl");
    assert_eq!(subagent.tokens.unwrap().input, 50_000, "the main thread alone had 41000");
    assert_eq!(subagent.cost, Usd::from_dollars(0.151_455));
    // The last call is missing in `usage`.
    assert_eq!(usage("budget.jsonl").tokens.unwrap().input, 100_000);
    assert_eq!(usage("budget.jsonl").cost, Usd::from_dollars(0.55));
    assert_eq!(usage("e401.jsonl").cost, Some(Usd::ZERO));
    // Interrupted: nothing was counted, but the message had begun with that much input.
    let interrupted = usage("sigint.jsonl");
    assert_eq!(interrupted.tokens.unwrap().input, 150_000);
    assert_eq!(interrupted.cost, None);
    // The same when not even that was printed.
    let unseen = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "terminal_reason": "aborted_streaming", "total_cost_usd": 0, "modelUsage": {}, "usage":
        {"input_tokens": 0, "output_tokens": 0}});
    let error = read(&unseen.to_string()).1.unwrap_err();
    assert_eq!(error.report.usage, Usage::default());
    assert_eq!(usage("sigint-tool.jsonl").cost, Usd::from_dollars(0.72575));
    // No result at all: what was seen.
    let killed = usage("sigterm-tool.jsonl");
    assert_eq!((killed.tokens.unwrap().input, killed.cost), (145_000, None));
}

#[test]
fn an_imitator_without_cost_that_counts_cached_input_within_input() {
    let report = read(&transcript("qwen.jsonl")).1.unwrap();
    let tokens = Tokens { input: 2200, output: 110, cache_read: 4100, cache_write: 0 };
    assert_eq!(report.usage, Usage { tokens: Some(tokens), ..Usage::default() });
    assert!(report.final_text.unwrap().contains("<promise>"));
}

#[test]
fn refused_tool_calls_are_named() {
    let report = read(&transcript("denied.jsonl")).1.unwrap();
    assert_eq!(report.denied, ["Write: /workspace/hello.txt"]);
}

#[test]
fn only_the_main_threads_words_can_be_the_final_text() {
    let words = |id: &str, parent: Value, text: &str| {
        json!({"type": "assistant", "parent_tool_use_id": parent,
            "message": {"id": id, "content": [{"type": "text", "text": text}]}})
    };
    let end = json!({"type": "result", "subtype": "success", "is_error": false});
    let stream = lines(&[
        words("m1", Value::Null, "an earlier message"),
        words("m2", Value::Null, "first block"),
        words("s1", json!("toolu_1"), "<promise>COMPLETE: by a subagent</promise>"),
        words("m2", Value::Null, "second block"),
        end.clone(),
    ]);
    let report = read(&stream).1.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("first block\nsecond block"));
    let silent = read(&lines(&[words("s1", json!("t"), "sub"), end])).1.unwrap();
    assert_eq!(silent.final_text, None);
    let errors = read(&transcript("e400-credit.jsonl")).1.unwrap_err();
    assert_eq!(errors.report.final_text, None, "an error's text claims nothing");
}

#[test]
fn messages_say_what_was_decisive() {
    let error = read(&transcript("e400-credit.jsonl")).1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the agent failed (billing_error, HTTP status 400): Credit balance is too low"
    );
    let error = read(&transcript("maxturns.jsonl")).1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the agent failed (error_max_turns, max_turns): Reached maximum number of turns (2)"
    );
    let stderr = "Error: Session ID is already in use.\n".to_owned();
    let error = conclude(read("").1, ProcessEnd { stderr, ..exited(1) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the agent ended without a result (exit 1); its standard error: \
         Error: Session ID is already in use."
    );
}

#[test]
fn a_result_is_void_once_the_next_turn_begins() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "s"});
    let fine = json!({"type": "result", "subtype": "success", "is_error": false, "result": "ok"});
    let stream = lines(&[init.clone(), fine.clone(), init.clone()]);
    assert_eq!(class(&stream), Some(ErrorClass::Crashed));
    assert_eq!(class(&lines(&[init.clone(), fine.clone(), init, fine])), None);
}

#[test]
fn json_output_alone_in_a_list_and_with_noise_around() {
    let document = transcript("json.json");
    let expected = read(&document).1.unwrap();
    assert_eq!(expected.usage.cost, Usd::from_dollars(0.130_185));
    assert_eq!(expected.session.as_deref(), Some("7fa08439-c8dc-4799-888c-7ec6df7de52b"));
    let list: Vec<Value> = transcript("happy-bypass.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let verbose = read(&Value::Array(list).to_string()).1.unwrap();
    assert_eq!((&verbose.final_text, verbose.usage), (&expected.final_text, expected.usage));
    let noisy = format!("warning: something\n{document}\nbye\n");
    assert_eq!(read(&noisy).1.unwrap(), expected);
    for nothing in ["", "null", "[]", "{}", "done", "[1, {\"type\": 7}]"] {
        let error = read(nothing).1.unwrap_err();
        assert_eq!(error.class, ErrorClass::Crashed, "{nothing:?}");
    }
}
