//! The OpenAI chat completions API, and the errors that it shares with the Responses API.

use serde_json::{Value, json};

use super::reply::{Details, Fault, OVERLOADED, Turn};
use crate::model_server::call::Call;

/// The body of an answer that is an error.
pub(super) fn error(kind: &str, message: &str, details: &Details) -> Value {
    let mut error = json!({"message": message, "type": kind, "code": code(kind), "param": null});
    if let Some(error) = error.as_object_mut() {
        error.extend(details.clone());
    }
    json!({"error": error})
}

/// OpenAI's code for a type of error; other words are codes already.
pub(super) fn code(kind: &str) -> &str {
    match kind {
        "authentication_error" => "invalid_api_key",
        "not_found_error" => "model_not_found",
        "request_too_large" => "context_length_exceeded",
        "rate_limit_error" => "rate_limit_exceeded",
        "overloaded_error" => "server_is_overloaded",
        "api_error" => "server_error",
        other => other,
    }
}

/// A stream that is nothing but an error.
pub(super) fn failure(kind: &str, message: &str) -> Vec<String> {
    vec![event(&error(kind, message, &Details::new()))]
}

/// The whole completion.
pub(super) fn message(turn: &Turn, call: &Call<'_>) -> Value {
    let calls: Vec<Value> = calls(turn, call);
    let mut message = json!({"role": "assistant", "content": words(turn, "text")});
    if let Some(message) = message.as_object_mut() {
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        if let Some(thinking) = words(turn, "thinking").as_str() {
            message.insert("reasoning_content".to_owned(), thinking.into());
        }
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null,
        "finish_reason": finish_reason(turn)});
    json!({"id": id(call), "object": "chat.completion", "created": 0,
        "model": call.request.model(), "choices": [choice], "usage": usage(turn)})
}

/// The events of the completion, up to its fault if it has one.
pub(super) fn events(turn: &Turn, call: &Call<'_>) -> Vec<String> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    if let Some(thinking) = words(turn, "thinking").as_str() {
        deltas.push(json!({"reasoning_content": thinking}));
    }
    if let Some(text) = words(turn, "text").as_str() {
        deltas.push(json!({"content": text}));
    }
    for (index, mut tool) in calls(turn, call).into_iter().enumerate() {
        if let Some(tool) = tool.as_object_mut() {
            tool.insert("index".to_owned(), index.into());
        }
        deltas.push(json!({"tool_calls": [tool]}));
    }
    let mut events: Vec<String> = Vec::new();
    for (index, delta) in deltas.into_iter().enumerate() {
        events.push(chunk(call, &json!([{"index": 0, "delta": delta, "finish_reason": null}])));
        if let Some(fault) = turn.fault.filter(|_| index > 0) {
            if fault == Fault::Error {
                let (kind, message) = OVERLOADED;
                events.extend(failure(kind, message));
            }
            return events;
        }
    }
    let end = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(turn)}]);
    events.push(chunk(call, &end));
    let asked = call.request.body.pointer("/stream_options/include_usage");
    if asked.and_then(Value::as_bool).unwrap_or(false) {
        let mut last = envelope(call, &json!([]));
        if let Some(last) = last.as_object_mut() {
            last.insert("usage".to_owned(), usage(turn));
        }
        events.push(event(&last));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// All texts or all reasoning of a message, or null.
fn words(turn: &Turn, kind: &str) -> Value {
    let of_kind = |block: &&Value| block.get("type").is_some_and(|found| found == kind);
    let pieces = turn.blocks.iter().filter(of_kind).filter_map(|block| block.get(kind)?.as_str());
    Some(pieces.collect::<String>()).filter(|text| !text.is_empty()).into()
}

fn calls(turn: &Turn, call: &Call<'_>) -> Vec<Value> {
    let is_call = |block: &&Value| block.get("type").is_some_and(|kind| kind == "tool_use");
    let calls = turn.blocks.iter().filter(is_call).enumerate().map(|(index, block)| {
        let arguments = block.get("input").cloned().unwrap_or_default().to_string();
        let function = json!({"name": block.get("name"), "arguments": arguments});
        json!({"id": format!("call_{:020}{index:02}", call.id), "type": "function",
            "function": function})
    });
    calls.collect()
}

fn finish_reason(turn: &Turn) -> &str {
    match turn.stop_reason.as_str() {
        "end_turn" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

fn usage(turn: &Turn) -> Value {
    let usage = turn.usage;
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": usage.total(),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write,
        },
    })
}

fn id(call: &Call<'_>) -> String {
    format!("chatcmpl-{:024}", call.id)
}

fn envelope(call: &Call<'_>, choices: &Value) -> Value {
    json!({"id": id(call), "object": "chat.completion.chunk", "created": 0,
        "model": call.request.model(), "choices": choices})
}

fn chunk(call: &Call<'_>, choices: &Value) -> String {
    event(&envelope(call, choices))
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
