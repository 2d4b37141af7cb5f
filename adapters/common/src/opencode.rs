//! Reads what `opencode run --format json` prints.

use std::time::Duration;

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report, Tokens, Usage, Usd};
use serde_json::Value;

use crate::LineParser;
use crate::error_text::{class_of_status, classify};
use crate::json::{bounded, count, some_text, text};

/// The reason of a step that goes on once the tools have answered.
const TOOL_CALLS: &str = "tool-calls";

/// Reads the output of `opencode run --format json`. It prints one step per call of the model and no final event: the
/// end of its output and its exit status are all there is.
#[derive(Debug, Default)]
pub struct OpenCodeParser {
    session: Option<String>,
    /// The text parts of the step that runs or ended last.
    texts: Vec<String>,
    step: Step,
    error: Option<(ErrorClass, String)>,
    usage: Usage,
}

#[derive(Debug, Default)]
enum Step {
    #[default]
    None,
    Running,
    /// With the reason it gave.
    Finished(String),
}

impl LineParser for OpenCodeParser {
    fn line(&mut self, line: &str) -> Vec<Event> {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        let mut events = self.session(&event);
        let part = event.get("part").unwrap_or(&Value::Null);
        match text(&event, "type") {
            "step_start" => {
                self.step = Step::Running;
                self.texts.clear();
            }
            "text" => {
                let said = text(part, "text").to_owned();
                self.texts.push(said.clone());
                events.push(Event::Text { text: said });
            }
            "reasoning" => events.push(Event::Thinking { text: text(part, "text").to_owned() }),
            "tool_use" => events.extend(tool(part)),
            "step_finish" => {
                self.step = Step::Finished(text(part, "reason").to_owned());
                self.count(part);
                events.push(Event::Usage { usage: self.usage });
            }
            "error" => {
                let (class, message) = error(event.get("error").unwrap_or(&Value::Null));
                events.push(Event::Warning { message: message.clone() });
                self.error = Some((class, message));
            }
            _ => {}
        }
        events
    }

    fn is_done(&self) -> bool {
        matches!(&self.step, Step::Finished(reason) if !reason.is_empty() && reason != TOOL_CALLS)
    }

    /// A step that stopped may still be followed by another one, such as a summary of the conversation.
    fn exit_grace(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn account(self, _exit: &str) -> Result<Report, AgentError> {
        let crashed = |message: &str| Err((ErrorClass::Crashed, message.to_owned()));
        let ending = match (self.error, self.step) {
            (Some(error), _) => Err(error),
            (None, Step::Finished(reason)) if reason == TOOL_CALLS => {
                crashed("opencode ended although it was to go on after a tool call")
            }
            (None, Step::Finished(_)) => {
                let said = self.texts.join("\n");
                Ok(Some(said).filter(|said| !said.is_empty()))
            }
            (None, Step::Running) => crashed("opencode ended in the middle of a step"),
            (None, Step::None) => crashed(
                "opencode ended without a step: expected the output of `opencode run --format json`",
            ),
        };
        let report = Report { usage: self.usage, session: self.session, ..Report::default() };
        match ending {
            Ok(final_text) => Ok(Report { final_text, ..report }),
            Err((class, message)) => Err(AgentError::new(class, message).with_report(report)),
        }
    }
}

impl OpenCodeParser {
    /// Every event names the session; the first one begins it.
    fn session(&mut self, event: &Value) -> Vec<Event> {
        match (&self.session, some_text(event, "sessionID")) {
            (None, Some(id)) => {
                self.session = Some(id.clone());
                vec![Event::Session { id, model: None }]
            }
            _ => Vec::new(),
        }
    }

    fn count(&mut self, part: &Value) {
        if let Some(figures) = part.get("tokens") {
            let cache = figures.get("cache").unwrap_or(&Value::Null);
            let mut step = Tokens {
                input: count(figures, "input"),
                output: count(figures, "output"),
                cache_read: count(cache, "read"),
                cache_write: count(cache, "write"),
            };
            // Some providers count reasoning within the output; the total tells.
            if figures.get("total").and_then(Value::as_u64) != Some(step.total()) {
                step.output = step.output.saturating_add(count(figures, "reasoning"));
            }
            self.usage.tokens = Some(self.usage.tokens.unwrap_or_default() + step);
        }
        if let Some(cost) = part.get("cost").and_then(Value::as_f64).and_then(Usd::from_dollars) {
            self.usage.cost = Some(self.usage.cost.unwrap_or_default() + cost);
        }
    }
}

/// Returns the call and the result of a tool, which is reported once, when it has ended.
fn tool(part: &Value) -> Vec<Event> {
    let id = text(part, "callID").to_owned();
    let state = part.get("state").unwrap_or(&Value::Null);
    let is_error = text(state, "status") == "error";
    let answer = if is_error { text(state, "error") } else { text(state, "output") };
    vec![
        Event::ToolCall {
            id: id.clone(),
            name: text(part, "tool").to_owned(),
            input: state.get("input").cloned().unwrap_or_default(),
        },
        Event::ToolResult { id, is_error, text: bounded(answer) },
    ]
}

/// Returns class and message of `{"name":"APIError","data":{"message":"…","statusCode":429}}`.
fn error(error: &Value) -> (ErrorClass, String) {
    let data = error.get("data").unwrap_or(&Value::Null);
    let name = text(error, "name");
    let message = match (text(data, "message"), text(error, "message")) {
        ("", "") => name,
        ("", outer) => outer,
        (inner, _) => inner,
    };
    let class = match name {
        "ProviderAuthError" => ErrorClass::Unauthenticated,
        "ContextOverflowError" => ErrorClass::ContextExceeded,
        "ProviderModelNotFoundError" => ErrorClass::NotFound,
        _ => match classify(message) {
            class @ ErrorClass::ContextExceeded => class,
            class => data
                .get("statusCode")
                .and_then(Value::as_u64)
                .and_then(class_of_status)
                .unwrap_or(class),
        },
    };
    (class, format!("opencode: {message}"))
}
