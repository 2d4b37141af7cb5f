//! The messages, one a line.

use std::collections::BTreeMap;
use std::fmt;

use ralph_orchestrator_contract::Tokens;
use serde::Deserialize;
use serde_json::Value;

use crate::claude_stream::lenient;
use crate::claude_stream::rate_limit::RateLimit;
use crate::claude_stream::text::bounded;

/// Longest text for a refused call, in bytes.
const MAX_DENIAL: usize = 200;

/// One line of the stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// What the agent tells about itself.
    System(System),
    /// One content block, or several, of a message of the model.
    Assistant(Assistant),
    /// What the model is given: tool results, and echoes.
    User(User),
    /// An event of the model's own stream, with `--include-partial-messages`.
    Stream {
        /// The event as the provider sent it.
        event: Value,
        /// The tool call whose subagent it belongs to.
        parent: Option<String>,
    },
    /// What is known of the account's limits.
    RateLimit(RateLimit),
    /// The last line of a turn.
    Result(Box<Outcome>),
    /// Of a kind not known here.
    Other {
        /// Its `type`, with its `subtype` after a slash if it has one.
        kind: String,
        /// As it came.
        raw: Value,
    },
}

/// A line of type `system`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum System {
    /// A turn begins.
    Init(Init),
    /// A request failed and will be tried again.
    Retry(Retry),
    /// Another model takes over.
    Fallback(Fallback),
    /// The context was compacted.
    Compacted(Compaction),
    /// Something that ran in the background is over.
    Task(Task),
}

impl System {
    /// The `subtype` of each.
    pub(crate) const SUBTYPES: [&str; 5] =
        ["init", "api_retry", "model_fallback", "compact_boundary", "task_notification"];
}

/// `system/init`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Init {
    /// The session's id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub session_id: Option<String>,
    /// The model, with a suffix such as `[1m]` for a larger window.
    #[serde(deserialize_with = "lenient::or_default")]
    pub model: Option<String>,
    /// The servers of tools that were configured.
    #[serde(deserialize_with = "lenient::list")]
    pub mcp_servers: Vec<McpServer>,
}

/// A server of tools, in [`Init`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct McpServer {
    /// Its name in the configuration.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: Option<String>,
    /// `connected`, `pending`, `failed`, `needs-auth` or another word.
    #[serde(deserialize_with = "lenient::or_default")]
    pub status: Option<String>,
}

impl McpServer {
    /// Whether the agent works without its tools.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.status.as_deref(), Some("failed" | "needs-auth"))
    }
}

/// `system/api_retry`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// Which attempt failed, from 1.
    #[serde(deserialize_with = "lenient::count")]
    pub attempt: Option<u64>,
    /// How often it will be tried again at most.
    #[serde(deserialize_with = "lenient::count")]
    pub max_retries: Option<u64>,
    /// The pause before the next attempt, in milliseconds.
    #[serde(deserialize_with = "lenient::count")]
    pub retry_delay_ms: Option<u64>,
    /// The HTTP status, absent if there was no answer at all.
    #[serde(deserialize_with = "lenient::count")]
    pub error_status: Option<u64>,
    /// The kind of error, as in [`Assistant::error`].
    #[serde(deserialize_with = "lenient::or_default")]
    pub error: Option<String>,
}

/// `system/model_fallback`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Fallback {
    /// The model that was asked for.
    #[serde(deserialize_with = "lenient::or_default")]
    pub original_model: Option<String>,
    /// The model that answers instead.
    #[serde(deserialize_with = "lenient::or_default")]
    pub fallback_model: Option<String>,
}

/// `system/compact_boundary`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Compaction {
    /// Tokens in the context before.
    #[serde(deserialize_with = "lenient::count")]
    pub pre_tokens: Option<u64>,
    /// Tokens in the context after.
    #[serde(deserialize_with = "lenient::count")]
    pub post_tokens: Option<u64>,
}

/// `system/task_notification`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Task {
    /// `completed`, `failed`, or `stopped` if the session ended before it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub status: Option<String>,
    /// What it was, for people.
    #[serde(deserialize_with = "lenient::or_default")]
    pub summary: Option<String>,
}

/// A line of type `assistant`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assistant {
    /// The message's id: the same on every line that carries a block of it.
    pub id: Option<String>,
    /// The model; `<synthetic>` if the agent wrote the message itself.
    pub model: Option<String>,
    /// The blocks on this line.
    pub content: Vec<Block>,
    /// Tokens so far. The output figure is a placeholder.
    pub usage: Option<WireUsage>,
    /// The tool call whose subagent speaks.
    pub parent: Option<String>,
    /// What went wrong, if the message stands for an error: `rate_limit`, `overloaded`,
    /// `authentication_failed`, `oauth_org_not_allowed`, `billing_error`, `invalid_request`,
    /// `model_not_found`, `server_error`, `max_output_tokens`, `unknown`.
    pub error: Option<String>,
}

/// A line of type `user`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    /// The blocks on this line.
    pub content: Vec<Block>,
    /// The tool call whose subagent is spoken to.
    pub parent: Option<String>,
}

/// A content block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// Text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A tool is called.
    ToolUse {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments.
        input: Value,
    },
    /// A tool answered.
    ToolResult {
        /// The call's id.
        id: String,
        /// It failed.
        is_error: bool,
        /// The texts of the answer.
        text: String,
    },
    /// Of a kind not known here.
    Other(Value),
}

/// Tokens as they are on the wire, in messages and in `result.usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WireUsage {
    /// Input tokens billed in full, except as in [`tokens`](Self::tokens).
    #[serde(deserialize_with = "lenient::count")]
    pub input_tokens: Option<u64>,
    /// Output tokens.
    #[serde(deserialize_with = "lenient::count")]
    pub output_tokens: Option<u64>,
    /// Input tokens read from the cache.
    #[serde(deserialize_with = "lenient::count")]
    pub cache_read_input_tokens: Option<u64>,
    /// Input tokens written to the cache.
    #[serde(deserialize_with = "lenient::count")]
    pub cache_creation_input_tokens: Option<u64>,
    /// Only from imitators: the sum.
    #[serde(deserialize_with = "lenient::count")]
    pub total_tokens: Option<u64>,
}

impl WireUsage {
    /// The counts, with cached input apart from the rest.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        let input = self.input_tokens.unwrap_or_default();
        let output = self.output_tokens.unwrap_or_default();
        let cache_read = self.cache_read_input_tokens.unwrap_or_default();
        // Agents on top of other providers count cached input within the input; their total tells.
        let cached_within = self.total_tokens == Some(input.saturating_add(output));
        Tokens {
            input: if cached_within { input.saturating_sub(cache_read) } else { input },
            output,
            cache_read,
            cache_write: self.cache_creation_input_tokens.unwrap_or_default(),
        }
    }
}

/// An entry of `result.modelUsage`: one model, subagents included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelUsage {
    /// Input tokens billed in full.
    #[serde(deserialize_with = "lenient::count")]
    pub input_tokens: Option<u64>,
    /// Output tokens.
    #[serde(deserialize_with = "lenient::count")]
    pub output_tokens: Option<u64>,
    /// Input tokens read from the cache.
    #[serde(deserialize_with = "lenient::count")]
    pub cache_read_input_tokens: Option<u64>,
    /// Input tokens written to the cache.
    #[serde(deserialize_with = "lenient::count")]
    pub cache_creation_input_tokens: Option<u64>,
    /// The model's context window in tokens.
    #[serde(deserialize_with = "lenient::count")]
    pub context_window: Option<u64>,
}

impl ModelUsage {
    /// The counts.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        Tokens {
            input: self.input_tokens.unwrap_or_default(),
            output: self.output_tokens.unwrap_or_default(),
            cache_read: self.cache_read_input_tokens.unwrap_or_default(),
            cache_write: self.cache_creation_input_tokens.unwrap_or_default(),
        }
    }
}

/// A tool call that was refused.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Denial {
    /// The tool's name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub tool_name: String,
    /// Its arguments.
    pub tool_input: Value,
}

/// For people: the tool and what it was about.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUBJECTS: [&str; 6] =
            ["file_path", "command", "path", "notebook_path", "url", "pattern"];
        let subject = SUBJECTS
            .iter()
            .find_map(|key| self.tool_input.get(key)?.as_str().map(str::to_owned))
            .unwrap_or_else(|| self.tool_input.to_string());
        f.write_str(&bounded(&format!("{}: {subject}", self.tool_name), MAX_DENIAL))
    }
}

/// A line of type `result`. Every field but `is_error` may be missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// `success` or `error_…`. Also `success` for requests that failed for good.
    #[serde(deserialize_with = "lenient::or_default")]
    pub subtype: Option<String>,
    /// Whether the turn failed.
    #[serde(deserialize_with = "lenient::or_default")]
    pub is_error: Option<bool>,
    /// The HTTP status of the request that failed for good.
    #[serde(deserialize_with = "lenient::count")]
    pub api_error_status: Option<u64>,
    /// What ended the turn, such as `completed`, `max_turns` or `aborted_tools`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub terminal_reason: Option<String>,
    /// The model's last stop reason.
    #[serde(deserialize_with = "lenient::or_default")]
    pub stop_reason: Option<String>,
    /// The final text, or the error's.
    #[serde(deserialize_with = "lenient::or_default")]
    pub result: Option<String>,
    /// What went wrong, if there is no `result`.
    #[serde(deserialize_with = "lenient::list")]
    pub errors: Vec<String>,
    /// The session's id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub session_id: Option<String>,
    /// Dollars since the process began, subagents included.
    #[serde(deserialize_with = "lenient::or_default")]
    pub total_cost_usd: Option<f64>,
    /// Tokens of the main thread in this turn.
    #[serde(deserialize_with = "lenient::or_default")]
    pub usage: Option<WireUsage>,
    /// Tokens since the process began, by model, subagents included.
    #[serde(rename = "modelUsage", deserialize_with = "lenient::map")]
    pub model_usage: BTreeMap<String, ModelUsage>,
    /// Tool calls that were refused.
    #[serde(deserialize_with = "lenient::list")]
    pub permission_denials: Vec<Denial>,
}

impl Outcome {
    /// Whether the turn failed: any sign of it is enough, and `success` is no sign of the contrary.
    #[must_use]
    pub fn failed(&self) -> bool {
        let subtype_is_error =
            self.subtype.as_deref().is_some_and(|subtype| subtype.starts_with("error"));
        self.is_error.unwrap_or(false) || subtype_is_error || self.api_error_status.is_some()
    }

    /// Whether the turn was interrupted from outside.
    #[must_use]
    pub fn aborted(&self) -> bool {
        let reason = self.terminal_reason.as_deref();
        matches!(reason, Some("aborted_streaming" | "aborted_tools"))
    }
}

impl Message {
    /// Reads a message that is JSON already; never fails.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        let word = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        match (word("type"), word("subtype")) {
            ("assistant", _) => Self::Assistant(assistant(value)),
            ("user", _) => Self::User(user(value)),
            ("result", _) => Self::Result(Box::new(typed(value))),
            ("stream_event", _) => {
                Self::Stream { parent: parent(&value), event: field(value, "event") }
            }
            ("rate_limit_event", _) => Self::RateLimit(typed(field(value, "rate_limit_info"))),
            ("system", "init") => Self::System(System::Init(typed(value))),
            ("system", "task_notification") => Self::System(System::Task(typed(value))),
            ("system", "api_retry") => Self::System(System::Retry(typed(value))),
            ("system", "model_fallback") => Self::System(System::Fallback(typed(value))),
            ("system", "compact_boundary") => {
                Self::System(System::Compacted(typed(field(value, "compact_metadata"))))
            }
            (kind, "") => Self::Other { kind: kind.to_owned(), raw: value },
            (kind, subtype) => Self::Other { kind: format!("{kind}/{subtype}"), raw: value },
        }
    }
}

/// Only what is no object at all fails here; then nothing of it is of use.
fn typed<T: serde::de::DeserializeOwned + Default>(value: Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

fn field(mut value: Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

fn string(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn parent(value: &Value) -> Option<String> {
    string(value, "parent_tool_use_id")
}

fn assistant(mut value: Value) -> Assistant {
    let mut message = value.get_mut("message").map(Value::take).unwrap_or_default();
    Assistant {
        id: string(&message, "id"),
        model: string(&message, "model"),
        usage: message.get_mut("usage").map(|usage| typed(usage.take())),
        content: blocks(field(message, "content")),
        parent: parent(&value),
        error: string(&value, "error"),
    }
}

fn user(value: Value) -> User {
    let parent = parent(&value);
    User { content: blocks(field(field(value, "message"), "content")), parent }
}

fn blocks(content: Value) -> Vec<Block> {
    match content {
        Value::String(text) => vec![Block::Text(text)],
        Value::Array(blocks) => blocks.into_iter().map(block).collect(),
        _ => Vec::new(),
    }
}

fn block(mut value: Value) -> Block {
    let kind = string(&value, "type").unwrap_or_default();
    match kind.as_str() {
        "text" => match string(&value, "text") {
            Some(text) => Block::Text(text),
            None => Block::Other(value),
        },
        "thinking" => match string(&value, "thinking") {
            Some(text) => Block::Thinking(text),
            None => Block::Other(value),
        },
        "tool_use" => Block::ToolUse {
            id: string(&value, "id").unwrap_or_default(),
            name: string(&value, "name").unwrap_or_default(),
            input: value.get_mut("input").map(Value::take).unwrap_or_default(),
        },
        "tool_result" => Block::ToolResult {
            id: string(&value, "tool_use_id").unwrap_or_default(),
            is_error: value.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            text: answer(value.get("content").unwrap_or(&Value::Null)),
        },
        _ => Block::Other(value),
    }
}

/// A tool's answer is a string, or blocks of which only the texts are of use here.
fn answer(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> =
                blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
