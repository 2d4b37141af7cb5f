//! Spans as OTLP requests in JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::span::Span;

/// The name of the program in traces.
const SERVICE: &str = "ralph-orchestrator";
/// Work inside of a program.
const INTERNAL: u8 = 1;
const FAILED: u8 = 2;

/// Returns the body of a request that exports these spans.
pub(crate) fn request(trace_id: &str, version: &str, spans: &[Span]) -> Value {
    let resource = [("service.name", json!(SERVICE)), ("service.version", json!(version))];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(&resource) },
            "scopeSpans": [{
                "scope": { "name": SERVICE, "version": version },
                "spans": spans.iter().map(|one| span(trace_id, one)).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(trace_id: &str, span: &Span) -> Value {
    let mut object = json!({
        "traceId": trace_id,
        "spanId": span.id,
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": attributes(&span.attributes),
        "status": match &span.failure {
            Some(message) => json!({ "code": FAILED, "message": message }),
            None => json!({}),
        },
    });
    if let (Some(parent), Some(object)) = (&span.parent, object.as_object_mut()) {
        object.insert("parentSpanId".to_owned(), json!(parent));
    }
    object
}

/// Numbers of 64 bits are text in the JSON of protocol buffers.
fn nanoseconds(time: Timestamp) -> String {
    time.as_nanosecond().max(0).to_string()
}

fn attributes(pairs: &[(&'static str, Value)]) -> Vec<Value> {
    let each = pairs.iter().map(|(key, value)| {
        let value = match value {
            Value::Bool(value) => json!({ "boolValue": value }),
            Value::Number(value) if value.is_f64() => json!({ "doubleValue": value }),
            Value::Number(value) => json!({ "intValue": value.to_string() }),
            Value::String(value) => json!({ "stringValue": value }),
            other => json!({ "stringValue": other.to_string() }),
        };
        json!({ "key": key, "value": value })
    });
    each.collect()
}
