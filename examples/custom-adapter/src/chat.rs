//! The messages of the chat completions API, and what its errors mean.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ralph_orchestrator_plugin_sdk::agent_tools::definitions;
use ralph_orchestrator_plugin_sdk::{AgentError, ErrorClass, Tokens};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::Answer;
use crate::shell;

/// So much of an answer that is no JSON is shown, in characters.
const SHOWN: usize = 300;

const SYSTEM: &str = "You are a software engineer at work in a folder of your own on a Unix machine. \
Do the user's task completely, by running commands with the tool `bash`; look at what they say, and \
verify your work. There is nobody to ask. When you are done, answer with a short summary and call no \
tool.";

/// What the model reads first.
pub(crate) fn opening(prompt: &str) -> Vec<Value> {
    vec![json!({"role": "system", "content": SYSTEM}), json!({"role": "user", "content": prompt})]
}

/// The tools that the model is offered: `bash`, and those of the orchestrator.
pub(crate) fn tools() -> Vec<Value> {
    let own = definitions().into_iter().map(|tool| {
        let function = json!({"name": tool.name, "description": tool.description,
            "parameters": tool.input_schema});
        json!({"type": "function", "function": function})
    });
    std::iter::once(shell::tool()).chain(own).collect()
}

/// An answer of the model.
#[derive(Debug)]
pub(crate) struct Completion {
    /// As it came, to be sent back.
    pub(crate) message: Value,
    pub(crate) thinking: Option<String>,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) tokens: Option<Tokens>,
    /// Why it is not whole.
    pub(crate) cut: Option<String>,
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON, or what the model takes for it.
    pub(crate) arguments: String,
}

#[derive(Deserialize)]
struct Said {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Figures>,
}

#[derive(Deserialize)]
struct Choice {
    message: Value,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Figures {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

impl From<Figures> for Tokens {
    fn from(figures: Figures) -> Self {
        let Figures { prompt_tokens, completion_tokens, prompt_tokens_details } = figures;
        let details = prompt_tokens_details.unwrap_or_default();
        let cache_read = details.cached_tokens.unwrap_or(0);
        let cache_write = details.cache_write_tokens.unwrap_or(0);
        // The prompt's are all of them, however they were read.
        let input = prompt_tokens.saturating_sub(cache_read.saturating_add(cache_write));
        Self { input, output: completion_tokens, cache_read, cache_write }
    }
}

/// Understands an answer.
pub(crate) fn read(answer: &Answer) -> Result<Completion, AgentError> {
    if answer.status != 200 {
        return Err(refused(answer));
    }
    let strange = |why: &str| {
        let message = format!("the endpoint does not speak chat completions: {why}");
        AgentError::new(ErrorClass::Unavailable, message)
    };
    let said: Said = serde_json::from_slice(&answer.body)
        .map_err(|error| strange(&format!("{error} in {}", shown(&answer.body))))?;
    let tokens = said.usage.map(Tokens::from);
    let Some(Choice { message, finish_reason }) = said.choices.into_iter().next() else {
        return Err(strange("its answer has no choice"));
    };
    let read = Message::deserialize(&message).map_err(|error| strange(&error.to_string()))?;
    let calls = read.tool_calls.unwrap_or_default().into_iter();
    let calls = calls.map(|ToolCall { id, function: Function { name, arguments } }| Call {
        id,
        name,
        arguments,
    });
    Ok(Completion {
        thinking: read.reasoning_content.filter(|text| !text.is_empty()),
        text: read.content.unwrap_or_default(),
        calls: calls.collect(),
        tokens,
        cut: finish_reason.filter(|reason| reason != "stop" && reason != "tool_calls"),
        message,
    })
}

/// What a status other than 200 means.
fn refused(answer: &Answer) -> AgentError {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let of = |key: &str| body.pointer(&format!("/error/{key}")).and_then(Value::as_str);
    let code = of("code").or_else(|| of("type")).unwrap_or_default();
    let class = match (answer.status, code) {
        (_, "context_length_exceeded") | (413, _) => ErrorClass::ContextExceeded,
        (402, _) | (_, "insufficient_quota") => ErrorClass::Billing,
        (401 | 403, _) => ErrorClass::Unauthenticated,
        (404, _) | (_, "model_not_found") => ErrorClass::NotFound,
        (429, _) => ErrorClass::RateLimited { until_ms: until(answer.retry_after.as_deref()) },
        (408 | 500.., _) => ErrorClass::Overloaded,
        _ => ErrorClass::InvalidRequest,
    };
    let why = of("message").map_or_else(|| shown(&answer.body), str::to_owned);
    AgentError::new(class, format!("the endpoint answered {}: {why}", answer.status))
}

/// When to ask again, in milliseconds since the Unix epoch, if it was said in seconds.
fn until(retry_after: Option<&str>) -> Option<u64> {
    let wait = Duration::try_from_secs_f64(retry_after?.trim().parse().ok()?).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(now.checked_add(wait)?.as_millis()).ok()
}

fn shown(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
    if text.trim().is_empty() { "an empty answer".to_owned() } else { format!("{text:?}") }
}
