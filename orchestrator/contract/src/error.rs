//! How an iteration ends: what is known of it, and how it can fail.

use serde::{Deserialize, Serialize};

use super::leftovers::{Leftovers, Survivor};
use super::usage::Usage;

/// The class of a failure decides what the orchestrator does about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum ErrorClass {
    /// The provider refuses further requests for now: wait. Not a failure, not an iteration.
    RateLimited {
        /// When requests are accepted again, in milliseconds since the Unix epoch, if it was said.
        until_ms: Option<u64>,
    },
    /// The provider is overloaded: wait with back-off.
    Overloaded,
    /// Nobody is logged in, or the key is refused: a human is needed.
    Unauthenticated,
    /// No credit is left: a human is needed.
    Billing,
    /// The request itself is refused for what is in it; another one may not be.
    InvalidRequest,
    /// The provider does not know the model or the address that was asked for. No retry mends that:
    /// the run stops at once.
    NotFound,
    /// The model's context window is full.
    ContextExceeded,
    /// The agent's own bound on turns or budget ended it.
    AgentLimit,
    /// The agent ended in an unexpected way: exit status, signal, no final event.
    Crashed,
    /// The agent's own time-out ended it.
    TimedOut,
    /// Ended because the orchestrator asked for it.
    Cancelled,
    /// The agent cannot be started or does not speak its protocol.
    Unavailable,
}

impl ErrorClass {
    /// One stable word, as in the journal.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Unauthenticated => "unauthenticated",
            Self::Billing => "billing",
            Self::InvalidRequest => "invalid_request",
            Self::NotFound => "not_found",
            Self::ContextExceeded => "context_exceeded",
            Self::AgentLimit => "agent_limit",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
        }
    }
}

/// How an iteration ended, when it ended well; inside an [`AgentError`], what is known of a failed one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The agent's own last message. Never a tool's result, reasoning, standard error, or an echo of
    /// the prompt: claims are looked for here.
    pub final_text: Option<String>,
    /// The whole iteration's usage.
    pub usage: Usage,
    /// The agent's session id, for people who want to look into it.
    pub session: Option<String>,
    /// The exit status for people, such as `exit 1` or `signal 9`.
    pub exit: Option<String>,
    /// Names of processes that were still there when the agent ended, and were ended.
    pub left_behind: Vec<String>,
    /// Processes of the agent that could not be ended. Nothing is validated while one of them lives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub survived: Vec<Survivor>,
    /// Tool calls that the agent's permissions refused.
    pub denied: Vec<String>,
}

impl Report {
    /// Adds what was left of the agent's processes.
    pub fn add_leftovers(&mut self, leftovers: Leftovers) {
        self.left_behind.extend(leftovers.left_behind);
        self.survived.extend(leftovers.survived);
    }
}

/// A failed iteration, with what is known of it all the same.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct AgentError {
    /// What kind of failure.
    pub class: ErrorClass,
    /// For people: what happened and, if known, what to do.
    pub message: String,
    /// Usage and what else was learned before the failure.
    pub report: Box<Report>,
}

impl AgentError {
    /// An error about which nothing else is known.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), report: Box::default() }
    }

    /// With the figures of the failed iteration.
    #[must_use]
    pub fn with_report(mut self, report: Report) -> Self {
        self.report = Box::new(report);
        self
    }
}
