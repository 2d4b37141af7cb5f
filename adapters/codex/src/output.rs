//! What Codex reports, on standard output and in its recording.

use ralph_adapter_common::LineParser;
use ralph_adapter_common::codex_stream::CodexParser;
use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report};

use crate::recording::{Recording, ThreadUpdate};

/// What one process of Codex has reported so far.
pub(crate) struct CodexOutput {
    parser: CodexParser,
    recording: Option<Recording>,
    window: Option<u64>,
    /// Tokens in the context and its size, as last emitted.
    context: Option<(u64, Option<u64>)>,
    model: Option<String>,
}

impl CodexOutput {
    pub(crate) fn new(recording: Option<Recording>) -> Self {
        Self { parser: CodexParser::new(), recording, window: None, context: None, model: None }
    }

    fn apply(&mut self, update: ThreadUpdate) -> Vec<Event> {
        match update {
            ThreadUpdate::RateWindows(events) => events,
            other => self.apply_figure(other).into_iter().collect(),
        }
    }

    fn apply_figure(&mut self, update: ThreadUpdate) -> Option<Event> {
        let used = match update {
            ThreadUpdate::RateWindows(_) => return None,
            ThreadUpdate::Usage(tokens) => return self.parser.add_usage(tokens),
            ThreadUpdate::Model(model) => {
                if self.model.as_ref() == Some(&model) {
                    return None;
                }
                self.model = Some(model);
                let id = self.parser.session().unwrap_or_default().to_owned();
                return Some(Event::Session { id, model: self.model.clone() });
            }
            ThreadUpdate::ContextWindow(window) => {
                self.window = Some(window);
                self.context?.0
            }
            ThreadUpdate::ContextUsed(used) => used,
        };
        let context = Some((used, self.window));
        if self.context == context {
            return None;
        }
        self.context = context;
        Some(Event::Context { used, window: self.window })
    }
}

impl LineParser for CodexOutput {
    fn line(&mut self, line: &str) -> Vec<Event> {
        let mut events = self.parser.line(line);
        if let (Some(recording), Some(thread)) = (&mut self.recording, self.parser.session()) {
            recording.follow(thread);
        }
        events.extend(self.poll());
        events
    }

    fn is_done(&self) -> bool {
        self.parser.has_result()
    }

    fn poll(&mut self) -> Vec<Event> {
        let updates = self.recording.as_mut().map(Recording::read).unwrap_or_default();
        updates.into_iter().flat_map(|update| self.apply(update)).collect()
    }

    fn account(self, _exit: &str) -> Result<Report, AgentError> {
        self.parser.finish().map_err(|mut error| {
            if let Some(advice) = advice(&error.class) {
                error.message.push_str("; ");
                error.message.push_str(advice);
            }
            error
        })
    }
}

/// Returns what to do about an error of this class.
fn advice(class: &ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::Unauthenticated => {
            Some("set CODEX_API_KEY in the environment, or run `codex login` once")
        }
        ErrorClass::Billing => Some("buy credit for the account, or use another one"),
        ErrorClass::ContextExceeded => Some("shorten the prompt and the files that it names"),
        ErrorClass::NotFound => {
            Some("correct `model` in [agent.config], or the provider in Codex's own configuration")
        }
        ErrorClass::RateLimited { .. }
        | ErrorClass::Overloaded
        | ErrorClass::InvalidRequest
        | ErrorClass::AgentLimit
        | ErrorClass::Crashed
        | ErrorClass::TimedOut
        | ErrorClass::Cancelled
        | ErrorClass::Unavailable => None,
    }
}
