//! A step of a trajectory: a message of the agent, its tools and their results.

use ralph_orchestrator_contract::{Tokens, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};

#[derive(Serialize)]
pub(super) struct ToolCall {
    pub(super) tool_call_id: String,
    pub(super) function_name: String,
    pub(super) arguments: Value,
}

#[derive(Serialize)]
pub(super) struct ToolResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_call_id: Option<String>,
    pub(super) content: String,
}

/// A message of the agent with the tools that it calls, and the results of these.
#[derive(Default)]
pub(super) struct Step {
    pub(super) time: Option<String>,
    pub(super) message: String,
    pub(super) reasoning: String,
    pub(super) model: Option<String>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) results: Vec<ToolResult>,
    pub(super) usage: Usage,
}

impl Step {
    pub(super) fn into_json(self, id: usize) -> Value {
        let mut step = Map::new();
        step.insert("step_id".into(), json!(id));
        let mut optional = |key: &str, value: Option<Value>| {
            step.extend(value.map(|value| (key.to_owned(), value)));
        };
        optional("timestamp", self.time.map(Value::from));
        optional("source", Some(json!("agent")));
        optional("message", Some(json!(self.message)));
        optional("model_name", self.model.map(Value::from));
        optional("reasoning_content", non_empty(self.reasoning));
        optional("tool_calls", (!self.calls.is_empty()).then(|| json!(self.calls)));
        let results = (!self.results.is_empty()).then(|| json!({"results": self.results}));
        optional("observation", results);
        optional("metrics", build_metrics(&self.usage));
        Value::Object(step)
    }
}

fn non_empty(text: String) -> Option<Value> {
    (!text.is_empty()).then(|| Value::from(text))
}

fn build_metrics(usage: &Usage) -> Option<Value> {
    let mut metrics = Map::new();
    if let Some(tokens) = usage.tokens {
        metrics.insert("prompt_tokens".into(), json!(prompt_tokens(tokens)));
        metrics.insert("completion_tokens".into(), json!(tokens.output));
        metrics.insert("cached_tokens".into(), json!(tokens.cache_read));
    }
    metrics.extend(usage.cost.map(|cost| ("cost_usd".to_owned(), json!(cost))));
    (!metrics.is_empty()).then_some(Value::Object(metrics))
}

/// Returns the tokens of the prompt as ATIF counts them: those of the cache are a part of them.
pub(super) fn prompt_tokens(tokens: Tokens) -> u64 {
    tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write)
}
