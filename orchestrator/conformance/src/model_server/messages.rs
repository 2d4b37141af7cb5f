//! The Anthropic Messages API: a message as JSON, and as the events of a stream.

use serde_json::{Value, json};

use super::reply::{Details, Fault, OVERLOADED, Turn};

/// The body of an answer that is an error.
pub(super) fn error(kind: &str, message: &str, details: &Details) -> Value {
    let mut error = json!({"type": kind, "message": message});
    if let Some(error) = error.as_object_mut() {
        error.extend(details.clone());
    }
    json!({"type": "error", "error": error})
}

/// A stream that is nothing but an error.
pub(super) fn failure(kind: &str, message: &str) -> Vec<String> {
    vec![event("error", json!({"error": {"type": kind, "message": message}}))]
}

/// The whole message.
pub(super) fn message(turn: &Turn, id: u64, model: &str) -> Value {
    json!({
        "id": format!("msg_{id:024}"), "type": "message", "role": "assistant", "model": model,
        "content": blocks(turn, id), "stop_reason": turn.stop_reason, "stop_sequence": null,
        "usage": usage(turn, turn.usage.output),
    })
}

/// The events of the message, up to its fault if it has one.
pub(super) fn events(turn: &Turn, id: u64, model: &str) -> Vec<String> {
    let mut start = message(turn, id, model);
    if let Some(start) = start.as_object_mut() {
        start.insert("content".to_owned(), json!([]));
        start.insert("stop_reason".to_owned(), Value::Null);
        // At the start the real API says one token of output, whatever follows.
        start.insert("usage".to_owned(), usage(turn, 1));
    }
    let mut events = vec![event("message_start", json!({"message": start}))];
    for (index, block) in blocks(turn, id).iter().enumerate() {
        let (empty, deltas) = parts(block);
        events.push(event("content_block_start", json!({"index": index, "content_block": empty})));
        for delta in deltas {
            events.push(event("content_block_delta", json!({"index": index, "delta": delta})));
            if let Some(fault) = turn.fault {
                if fault == Fault::Error {
                    let (kind, message) = OVERLOADED;
                    events.extend(failure(kind, message));
                }
                return events;
            }
        }
        events.push(event("content_block_stop", json!({"index": index})));
    }
    let delta = json!({"stop_reason": turn.stop_reason, "stop_sequence": null});
    let usage = json!({"output_tokens": turn.usage.output});
    events.push(event("message_delta", json!({"delta": delta, "usage": usage})));
    events.push(event("message_stop", json!({})));
    events
}

fn event(kind: &str, mut data: Value) -> String {
    if let Some(data) = data.as_object_mut() {
        data.insert("type".to_owned(), json!(kind));
    }
    format!("event: {kind}\ndata: {data}\n\n")
}

fn usage(turn: &Turn, output: u64) -> Value {
    json!({
        "input_tokens": turn.usage.input, "output_tokens": output,
        "cache_read_input_tokens": turn.usage.cache_read,
        "cache_creation_input_tokens": turn.usage.cache_write,
    })
}

/// The blocks, with an id for each tool call.
fn blocks(turn: &Turn, id: u64) -> Vec<Value> {
    let mut blocks = turn.blocks.clone();
    for (index, block) in blocks.iter_mut().enumerate() {
        let is_call = block.get("type").is_some_and(|kind| kind == "tool_use");
        if let Some(block) = block.as_object_mut().filter(|_| is_call) {
            block.insert("id".to_owned(), json!(format!("toolu_{id:020}{index:02}")));
        }
    }
    blocks
}

/// A block as it is announced, and the pieces it then comes in.
fn parts(block: &Value) -> (Value, Vec<Value>) {
    let get = |key: &str| block.get(key).cloned().unwrap_or_default();
    match block.get("type").and_then(Value::as_str) {
        Some("tool_use") => {
            let empty =
                json!({"type": "tool_use", "id": get("id"), "name": get("name"), "input": {}});
            let input = get("input").to_string();
            (empty, vec![json!({"type": "input_json_delta", "partial_json": input})])
        }
        Some("thinking") => {
            let empty = json!({"type": "thinking", "thinking": "", "signature": ""});
            let text = json!({"type": "thinking_delta", "thinking": get("thinking")});
            let signature = json!({"type": "signature_delta", "signature": get("signature")});
            (empty, vec![text, signature])
        }
        _ => {
            let empty = json!({"type": "text", "text": ""});
            (empty, vec![json!({"type": "text_delta", "text": get("text")})])
        }
    }
}
