//! Spans as OTLP requests in JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::span::Span;

/// The name of the program in traces.
const SERVICE: &str = "ralph-orchestrator";
/// Work inside of a program.
const INTERNAL: u8 = 1;
const FAILED: u8 = 2;

/// How large a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSize {
    /// Spans in it.
    pub spans: usize,
    /// Bytes of its spans.
    pub bytes: usize,
}

impl RequestSize {
    /// As large as it gets.
    pub const UNLIMITED: Self = Self { spans: usize::MAX, bytes: usize::MAX };
    /// What collectors take in: those of the OpenTelemetry project up to 4 MiB and more.
    pub const COLLECTOR: Self = Self { spans: 500, bytes: 2 * 1024 * 1024 };
}

/// Returns the bodies of requests that export these spans.
pub(crate) fn requests<'a>(
    trace_id: &'a str,
    version: &'a str,
    spans: &'a [Span],
    largest: RequestSize,
) -> impl Iterator<Item = Value> + use<'a> {
    let mut objects = spans.iter().map(move |one| span(trace_id, one)).peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![objects.next()?];
        let mut bytes = size(batch.first());
        while batch.len() < largest.spans {
            bytes = bytes.saturating_add(size(objects.peek()));
            if bytes > largest.bytes {
                break;
            }
            let Some(next) = objects.next() else { break };
            batch.push(next);
        }
        Some(request(version, &batch))
    })
}

fn size(span: Option<&Value>) -> usize {
    span.map_or(0, |span| span.to_string().len())
}

fn request(version: &str, spans: &[Value]) -> Value {
    let resource = [("service.name", json!(SERVICE)), ("service.version", json!(version))];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(&resource) },
            "scopeSpans": [{
                "scope": { "name": SERVICE, "version": version },
                "spans": spans,
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
