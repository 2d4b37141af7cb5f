//! The OpenAI Responses API.

use serde_json::{Value, json};

use super::chat::code;
use super::reply::{Fault, OVERLOADED, Turn};
use crate::model_server::call::Call;

/// The whole response.
pub(super) fn message(turn: &Turn, call: &Call<'_>) -> Value {
    let items: Vec<Value> = turn.blocks.iter().enumerate().map(|at| item(at, call)).collect();
    let (status, details) = match turn.stop_reason.as_str() {
        "max_tokens" => ("incomplete", json!({"reason": "max_output_tokens"})),
        "refusal" => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("completed", Value::Null),
    };
    let usage = turn.usage;
    let input = usage.input + usage.cache_read + usage.cache_write;
    let mut response = response(call, status);
    merge(
        &mut response,
        json!({
            "output": items, "incomplete_details": details,
            "usage": {
                "input_tokens": input,
                "input_tokens_details": {
                    "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write,
                },
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.total(),
            },
        }),
    );
    response
}

/// The events of the response, up to its fault if it has one.
pub(super) fn events(turn: &Turn, call: &Call<'_>) -> Vec<String> {
    let mut events = Vec::new();
    events.push(event("response.created", json!({"response": response(call, "in_progress")})));
    for (index, block) in turn.blocks.iter().enumerate() {
        let item = item((index, block), call);
        let mut begun = item.clone();
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let (emptied, delta) = match kind {
            "message" => (json!({"content": []}), "response.output_text.delta"),
            "reasoning" => (json!({"summary": []}), "response.reasoning_summary_text.delta"),
            "custom_tool_call" => (json!({"input": ""}), "response.custom_tool_call_input.delta"),
            _ => (json!({"arguments": ""}), "response.function_call_arguments.delta"),
        };
        merge(&mut begun, json!({"status": "in_progress"}));
        merge(&mut begun, emptied);
        events.push(event(
            "response.output_item.added",
            json!({"output_index": index, "item": begun}),
        ));
        let piece = json!({
            "item_id": item.get("id"), "output_index": index, "content_index": 0,
            "summary_index": 0, "delta": said(&item),
        });
        events.push(event(delta, piece));
        if let Some(fault) = turn.fault {
            if fault == Fault::Error {
                let (kind, message) = OVERLOADED;
                events.push(failed(kind, message, call));
            }
            return events;
        }
        events
            .push(event("response.output_item.done", json!({"output_index": index, "item": item})));
    }
    let response = message(turn, call);
    let last = match response.get("status").and_then(Value::as_str) {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    events.push(event(last, json!({"response": response})));
    events
}

/// A stream that is nothing but an error.
pub(super) fn failure(kind: &str, message: &str, call: &Call<'_>) -> Vec<String> {
    let begin = event("response.created", json!({"response": response(call, "in_progress")}));
    vec![begin, failed(kind, message, call)]
}

fn failed(kind: &str, message: &str, call: &Call<'_>) -> String {
    let mut response = response(call, "failed");
    merge(&mut response, json!({"error": {"code": code(kind), "message": message}}));
    event("response.failed", json!({"response": response}))
}

fn response(call: &Call<'_>, status: &str) -> Value {
    json!({
        "id": format!("resp_{:024}", call.id), "object": "response", "created_at": 0,
        "status": status, "model": call.request.model(), "output": [], "error": null,
        "incomplete_details": null, "usage": null,
    })
}

/// A block as an item of the output.
fn item((index, block): (usize, &Value), call: &Call<'_>) -> Value {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let id = format!("{:020}{index:02}", call.id);
    match text("type") {
        "tool_use" => {
            let (name, input) = (text("name"), block.get("input").cloned().unwrap_or_default());
            let call_id = format!("call_{id}");
            let tool = call.request.tool(name).and_then(|tool| tool.get("type"));
            if tool.is_some_and(|kind| kind == "custom") {
                let input = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
                return json!({"type": "custom_tool_call", "id": format!("ctc_{id}"),
                    "status": "completed", "call_id": call_id, "name": name, "input": input});
            }
            let mut item = json!({"type": "function_call", "id": format!("fc_{id}"),
                "status": "completed", "call_id": call_id, "name": name,
                "arguments": input.to_string()});
            if let (Some(namespace), Some(item)) =
                (call.request.namespace_of(name), item.as_object_mut())
            {
                item.insert("namespace".to_owned(), namespace.into());
            }
            item
        }
        "thinking" => {
            let summary = json!([{"type": "summary_text", "text": text("thinking")}]);
            json!({"type": "reasoning", "id": format!("rs_{id}"), "summary": summary,
                "encrypted_content": text("signature")})
        }
        _ => {
            let content = json!([{"type": "output_text", "text": text("text"), "annotations": []}]);
            json!({"type": "message", "id": format!("msg_{id}"), "role": "assistant",
                "status": "completed", "content": content})
        }
    }
}

/// What an item comes in pieces of.
fn said(item: &Value) -> Value {
    ["/content/0/text", "/summary/0/text", "/input", "/arguments"]
        .iter()
        .find_map(|at| item.pointer(at).cloned())
        .unwrap_or_default()
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

fn event(kind: &str, mut data: Value) -> String {
    merge(&mut data, json!({"type": kind}));
    format!("event: {kind}\ndata: {data}\n\n")
}
