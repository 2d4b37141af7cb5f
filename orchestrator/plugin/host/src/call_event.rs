//! What a call sends, and how it ends.

use std::path::PathBuf;

use ralph_orchestrator_contract::{AgentError, Event};
use ralph_orchestrator_plugin_protocol::{Answer, LogLine};

/// How a call ended.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// It succeeded, with the answer of its method.
    Done(Answer),
    /// The plugin reported a failure.
    Failed(AgentError),
    /// The plugin's code panicked.
    Panicked {
        /// The panic message and its location.
        message: String,
    },
    /// The session closed: the plugin is gone or violated the protocol. Holds the reason.
    SessionClosed(String),
}

/// An event of a call.
#[derive(Debug)]
pub enum CallEvent {
    /// An event of the agent.
    Agent(Event),
    /// A line of the plugin's standard error.
    Stderr(String),
    /// A log message of the plugin.
    Log(LogLine),
    /// The plugin requests a validation preview; answered by `CallHandle::send_preview`.
    PreviewRequested {
        /// The number of the request.
        request: u64,
        /// The agent's last message, if it ended now.
        final_text: Option<String>,
    },
    /// The plugin requests whether its agent may write a path; answered by
    /// `CallHandle::send_write_check`.
    WriteCheckRequested {
        /// The number of the request.
        request: u64,
        /// The path.
        path: PathBuf,
    },
    /// The plugin requests the guidance of people; answered by `CallHandle::send_guidance`.
    GuidanceRequested {
        /// The number of the request.
        request: u64,
    },
    /// The call ended. The last event.
    Ended(CallOutcome),
}

impl CallEvent {
    /// Returns the bytes of what the plugin printed or logged.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Self::Stderr(line) => line.len(),
            Self::Log(line) => crate::log::text(line).len(),
            _ => 0,
        }
    }
}

/// Returns why a call has no answer.
pub(crate) fn failure_message(outcome: CallOutcome) -> String {
    match outcome {
        CallOutcome::Done(_) => "it answered with the result of another method".to_owned(),
        CallOutcome::Failed(error) => error.message,
        CallOutcome::Panicked { message } => message,
        CallOutcome::SessionClosed(why) => why,
    }
}
