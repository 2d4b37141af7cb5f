//! What an agent tells while it runs, and how it is told to stop.

use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claim::ClaimKind;
use super::usage::Usage;

/// Something that happened inside an iteration. Large content is the adapter's to bound; what reaches
/// a terminal is escaped and cut by the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The agent's session began.
    Session {
        /// The agent's own name for the session.
        id: String,
        /// The model in use, if known.
        model: Option<String>,
    },
    /// A piece of the agent's own text; pieces of one message are not repeated.
    Text {
        /// The text.
        text: String,
    },
    /// A piece of the agent's reasoning.
    Thinking {
        /// The text.
        text: String,
    },
    /// The agent calls a tool.
    ToolCall {
        /// Joins the call with its result.
        id: String,
        /// The tool's name.
        name: String,
        /// The tool's arguments.
        input: Value,
    },
    /// A tool answered.
    ToolResult {
        /// The call's id.
        id: String,
        /// The tool failed.
        is_error: bool,
        /// The answer's text, possibly cut.
        text: String,
    },
    /// Tokens and cost since the iteration began.
    Usage {
        /// The sums so far. A figure that is not told is what it was before.
        usage: Usage,
    },
    /// How full the context of the agent's main conversation is.
    Context {
        /// Tokens in it.
        used: u64,
        /// Tokens it can hold, if known.
        window: Option<u64>,
    },
    /// How much of a rate window of the agent's provider is used.
    RateWindow {
        /// Its name: lower case letters, digits and `_`, such as `five_hour` or `weekly`.
        name: String,
        /// The share that is used; 1 is all of it.
        used: f64,
        /// When the window is reset, in milliseconds since the Unix epoch, if known.
        #[serde(default)]
        resets_at_ms: Option<u64>,
    },
    /// The agent claims by a tool call of the adapter's own, made for that.
    Claim {
        /// What it claims.
        kind: ClaimKind,
        /// The message or reason.
        text: String,
    },
    /// The agent leaves a note for the iterations after it, such as where to go on.
    Note {
        /// The note.
        text: String,
    },
    /// The agent itself waits, for instance because its provider is overloaded.
    Waiting {
        /// Why.
        reason: String,
        /// How long it means to wait, in milliseconds.
        delay_ms: Option<u64>,
    },
    /// A line of the agent's standard error.
    Stderr {
        /// The line, without its end.
        text: String,
    },
    /// A line of the agent's protocol as it came, for the transcript.
    Raw {
        /// The line, without its end.
        line: String,
    },
    /// Something the user should know that does not end the iteration.
    Warning {
        /// The message.
        message: String,
    },
    /// An event of a newer version.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// Returns about how many bytes of text it carries, so that whoever passes events on can tell how
    /// much it does at once.
    #[must_use]
    pub const fn weight(&self) -> usize {
        match self {
            Self::Text { text }
            | Self::Thinking { text }
            | Self::ToolResult { text, .. }
            | Self::Claim { text, .. }
            | Self::Note { text }
            | Self::Stderr { text } => text.len(),
            Self::Raw { line } => line.len(),
            Self::Warning { message } => message.len(),
            Self::Waiting { reason, .. } => reason.len(),
            Self::Session { .. }
            | Self::ToolCall { .. }
            | Self::Usage { .. }
            | Self::Context { .. }
            | Self::RateWindow { .. }
            | Self::Unknown => 0,
        }
    }
}

/// Why the orchestrator ends an iteration or a validation early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// `limits.iteration_timeout`, or a validator's own timeout.
    Timeout,
    /// `limits.idle_timeout`.
    Idle,
    /// `limits.max_runtime`.
    MaxRuntime,
    /// `limits.max_cost_usd`.
    MaxCost,
    /// `limits.max_tokens`.
    MaxTokens,
    /// Its context is nearly full, or `handoff.after` was reached: the next iteration continues.
    Handoff,
    /// The user or the system asked the orchestrator to stop.
    Signal,
    /// A person paused the run at once: the iteration is begun again after the pause.
    Pause,
}

impl CancelReason {
    /// Returns the key or the cause, for people.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Timeout => "limits.iteration_timeout",
            Self::Idle => "limits.idle_timeout",
            Self::MaxRuntime => "limits.max_runtime",
            Self::MaxCost => "limits.max_cost_usd",
            Self::MaxTokens => "limits.max_tokens",
            Self::Handoff => "[handoff]",
            Self::Signal => "a signal",
            Self::Pause => "a pause",
        }
    }

    /// For people, after a colon or a semicolon.
    #[must_use]
    pub const fn because(self) -> &'static str {
        match self {
            Self::Timeout => "limits.iteration_timeout was reached",
            Self::Idle => "limits.idle_timeout was reached",
            Self::MaxRuntime => "limits.max_runtime was reached",
            Self::MaxCost => "limits.max_cost_usd was reached",
            Self::MaxTokens => "limits.max_tokens was reached",
            Self::Handoff => "its context is handed off",
            Self::Signal => "it was asked to stop",
            Self::Pause => "the run is paused",
        }
    }
}

/// Tells when an activity has to end.
#[async_trait]
pub trait CancelSignal: Send + Sync {
    /// Resolves once the activity has to end; may be awaited again and from several places.
    async fn cancelled(&self) -> CancelReason;
}

/// Where an agent sends its events, and where it learns that it has to stop.
#[async_trait]
pub trait EventSink: CancelSignal {
    /// Hands an event over. Waiting here is the backpressure: do not read on before it returns.
    async fn emit(&self, event: Event);

    /// Previews what validation would result in if the agent ended now with `final_text` as its last
    /// message: the detectors inspect the workspace and, if a claim is pending, the validators run. To be
    /// called while the agent is idle. The preview decides nothing: when the agent has ended, its claims
    /// are validated regardless.
    async fn preview(&self, _final_text: Option<&str>) -> ValidationPreview {
        ValidationPreview::NotNow { why: "nobody can validate while the agent runs".to_owned() }
    }

    /// Takes the guidance that people sent since the agent was started. To be called where the agent can be
    /// given it at once: what was taken is recorded as delivered. What nobody takes is in the next prompt.
    fn take_guidance(&self) -> Vec<Guidance> {
        Vec::new()
    }

    /// Returns whether the agent's own tools are refused to write this absolute path, because a validator
    /// protects it or it is the orchestrator's own. To be called before each call of a tool that writes:
    /// links are followed as they are at that moment. Processes of the agent are confined by the sandbox.
    async fn is_write_refused(&self, _path: &Path) -> bool {
        false
    }
}

/// Guidance of a person for a running agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guidance {
    /// Its id, unique in the run.
    pub id: String,
    /// The text.
    pub text: String,
}

/// The line before guidance that an agent reads.
pub const GUIDANCE: &str = "Guidance from a human:";

/// The first line that an agent reads about a rejected claim; the reasons follow.
pub const REJECTED_CLAIM: &str = "Your claim that the task is complete was checked and REJECTED:";

/// The result that validation would have now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ValidationPreview {
    /// Nothing is claimed.
    NoClaim,
    /// A claim is pending, and every required validator accepts.
    Accepted,
    /// A claim is pending, and would be rejected.
    Rejected {
        /// Why, for the agent.
        reasons: Vec<String>,
    },
    /// Validation cannot run now.
    NotNow {
        /// Why, for people.
        why: String,
    },
}

/// A [`CancelSignal`] that never fires.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverCancelled;

#[async_trait]
impl CancelSignal for NeverCancelled {
    async fn cancelled(&self) -> CancelReason {
        std::future::pending().await
    }
}
