//! `codex exec --json`.

use orchestrator::contract::{AgentError, ErrorClass, Event, Report, Tokens, Usage};
use serde_json::{Value, json};

use super::json::{bounded, count, some_text, text};
use super::prose::classify;
use super::{Ending, LineParser, Summary};

/// What Codex has said so far.
#[derive(Debug, Default)]
pub(super) struct Codex {
    session: Option<String>,
    turn: Turn,
    last_message: Option<String>,
    /// The last error outside a turn's end: the reason if the turn never ends.
    last_error: Option<String>,
    tokens: Option<Tokens>,
    /// Items whose call was already told.
    open: Vec<String>,
}

#[derive(Debug, Default)]
enum Turn {
    #[default]
    Open,
    Completed,
    Failed(String),
}

impl LineParser for Codex {
    fn line(&mut self, line: &str) -> Vec<Event> {
        // Warnings of the program come between the events as plain lines.
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        match text(&event, "type") {
            "thread.started" => {
                self.session = some_text(&event, "thread_id");
                let id = self.session.clone().unwrap_or_default();
                vec![Event::Session { id, model: None }]
            }
            "turn.started" => {
                self.turn = Turn::Open;
                self.last_message = None;
                Vec::new()
            }
            "turn.completed" => self.turn_completed(&event),
            "turn.failed" => {
                let message = event.get("error").map(|error| text(error, "message").to_owned());
                self.turn = Turn::Failed(message.unwrap_or_default());
                Vec::new()
            }
            "error" => self.error(text(&event, "message")),
            "item.started" => event.get("item").map(|item| self.call(item)).unwrap_or_default(),
            "item.completed" => {
                event.get("item").map(|item| self.item_completed(item)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn done(&self) -> bool {
        !matches!(self.turn, Turn::Open)
    }

    fn finish(self: Box<Self>, _exit: &str) -> Result<Report, AgentError> {
        let ending = match self.turn {
            Turn::Completed => Ending::Completed(self.last_message),
            Turn::Failed(message) => Ending::Failed(classify(&message), message),
            Turn::Open => match self.last_error {
                Some(message) => Ending::Failed(classify(&message), message),
                None => Ending::Failed(
                    ErrorClass::Crashed,
                    "codex ended without turn.completed: expected the output of `codex exec --json`"
                        .to_owned(),
                ),
            },
        };
        let usage = Usage { tokens: self.tokens, ..Usage::default() };
        Summary { ending, usage, session: self.session }.into_result()
    }
}

impl Codex {
    /// The figures are sums over the whole thread, and their input includes what was cached.
    fn turn_completed(&mut self, event: &Value) -> Vec<Event> {
        self.turn = Turn::Completed;
        let Some(usage) = event.get("usage") else { return Vec::new() };
        let cache_read = count(usage, "cached_input_tokens");
        let cache_write = count(usage, "cache_write_input_tokens");
        let tokens = Tokens {
            input: count(usage, "input_tokens")
                .saturating_sub(cache_read)
                .saturating_sub(cache_write),
            output: count(usage, "output_tokens"),
            cache_read,
            cache_write,
        };
        self.tokens = Some(self.tokens.unwrap_or_default().max(tokens));
        vec![Event::Usage { usage: Usage { tokens: self.tokens, ..Usage::default() } }]
    }

    fn error(&mut self, message: &str) -> Vec<Event> {
        if message.starts_with("Reconnecting...") {
            return vec![Event::Waiting { reason: message.to_owned(), delay_ms: None }];
        }
        self.last_error = Some(message.to_owned());
        vec![Event::Warning { message: message.to_owned() }]
    }

    fn item_completed(&mut self, item: &Value) -> Vec<Event> {
        match text(item, "type") {
            "agent_message" => {
                let message = text(item, "text").to_owned();
                self.last_message = Some(message.clone());
                vec![Event::Text { text: message }]
            }
            "reasoning" => vec![Event::Thinking { text: text(item, "text").to_owned() }],
            "error" => vec![Event::Warning { message: text(item, "message").to_owned() }],
            _ => {
                let mut events = self.call(item);
                events.extend(self.result(item));
                events
            }
        }
    }

    /// The call behind an item, unless it was told when the item began.
    fn call(&mut self, item: &Value) -> Vec<Event> {
        let id = text(item, "id").to_owned();
        let pick = |keys: &[&str]| -> Value {
            keys.iter()
                .filter_map(|&key| Some((key.to_owned(), item.get(key)?.clone())))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let (name, input) = match text(item, "type") {
            kind @ "command_execution" => (kind.to_owned(), pick(&["command"])),
            kind @ "file_change" => (kind.to_owned(), pick(&["changes"])),
            kind @ "web_search" => (kind.to_owned(), pick(&["query"])),
            "mcp_tool_call" => (
                format!("{}.{}", text(item, "server"), text(item, "tool")),
                item.get("arguments").cloned().unwrap_or_else(|| json!({})),
            ),
            _ => return Vec::new(),
        };
        if self.open.contains(&id) {
            return Vec::new();
        }
        self.open.push(id.clone());
        vec![Event::ToolCall { id, name, input }]
    }

    fn result(&mut self, item: &Value) -> Option<Event> {
        let id = text(item, "id").to_owned();
        self.open.iter().position(|open| *open == id).map(|at| self.open.swap_remove(at))?;
        let failed = matches!(text(item, "status"), "failed" | "declined")
            || item.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0);
        let answer = match text(item, "type") {
            "command_execution" => text(item, "aggregated_output").to_owned(),
            "mcp_tool_call" => mcp_answer(item),
            _ => text(item, "status").to_owned(),
        };
        Some(Event::ToolResult { id, is_error: failed, text: bounded(&answer) })
    }
}

fn mcp_answer(item: &Value) -> String {
    if let Some(error) = item.get("error").filter(|error| !error.is_null()) {
        return text(error, "message").to_owned();
    }
    let parts = item.pointer("/result/content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .collect::<Vec<_>>()
        .join("\n")
}
