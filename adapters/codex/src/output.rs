//! What Codex tells, on standard output and in its recording.

use ralph_adapter_common::LineParser;
use ralph_adapter_common::codex_stream::Parser;
use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report};

use crate::recording::{Recording, Told};

/// What one process of Codex has told so far.
pub(crate) struct Output {
    parser: Parser,
    recording: Option<Recording>,
    window: Option<u64>,
    /// The last that was told of the context.
    context: Option<(u64, Option<u64>)>,
    model: Option<String>,
}

impl Output {
    pub(crate) fn new(recording: Option<Recording>) -> Self {
        Self { parser: Parser::new(), recording, window: None, context: None, model: None }
    }

    fn told(&mut self, told: Told) -> Option<Event> {
        let used = match told {
            Told::Used(tokens) => return self.parser.used(tokens),
            Told::Model(model) => {
                if self.model.as_ref() == Some(&model) {
                    return None;
                }
                self.model = Some(model);
                let id = self.parser.session().unwrap_or_default().to_owned();
                return Some(Event::Session { id, model: self.model.clone() });
            }
            Told::Window(window) => {
                self.window = Some(window);
                self.context?.0
            }
            Told::Context(used) => used,
        };
        let context = Some((used, self.window));
        if self.context == context {
            return None;
        }
        self.context = context;
        Some(Event::Context { used, window: self.window })
    }
}

impl LineParser for Output {
    fn line(&mut self, line: &str) -> Vec<Event> {
        let mut events = self.parser.line(line);
        if let (Some(recording), Some(thread)) = (&mut self.recording, self.parser.session()) {
            recording.follow(thread);
        }
        events.extend(self.glance());
        events
    }

    fn done(&self) -> bool {
        self.parser.has_result()
    }

    fn glance(&mut self) -> Vec<Event> {
        let told = self.recording.as_mut().map(Recording::read).unwrap_or_default();
        told.into_iter().filter_map(|told| self.told(told)).collect()
    }

    fn finish(self: Box<Self>, _exit: &str) -> Result<Report, AgentError> {
        self.parser.finish().map_err(|mut error| {
            if let Some(advice) = advice(&error.class) {
                error.message.push_str("; ");
                error.message.push_str(advice);
            }
            error
        })
    }
}

/// What to do, where the class says it.
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
