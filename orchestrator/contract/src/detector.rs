//! Claims and those who find them.

use std::borrow::Cow;
use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Event;

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// The task is complete.
    Complete,
    /// A human is needed.
    NeedsHuman,
}

/// Where a claim was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimSource {
    /// In the agent's final message: each message makes its own claim. What stands word for word in
    /// [`DetectorInput::given`] was not said by the agent.
    Message,
    /// In a file, or any other state that stands until it is changed.
    State,
    /// By a tool call.
    Tool,
}

/// An assertion that the task is complete, or that a human is needed. Never ends a run by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed.
    pub kind: ClaimKind,
    /// The detector's name.
    pub detector: String,
    /// Where it was made.
    pub source: ClaimSource,
    /// The message, reason, or the line found.
    pub text: String,
}

impl Claim {
    /// The name that stands for a detector where nobody claimed anything. No detector can have it.
    const AUTOMATIC: &'static str = "completion.when";

    /// Creates the claim that the task is complete, made in the agent's final message. The detector's
    /// name is filled in by whoever asked the detector.
    #[must_use]
    pub fn complete(text: impl Into<String>) -> Self {
        let (kind, source) = (ClaimKind::Complete, ClaimSource::Message);
        Self { kind, detector: String::new(), source, text: text.into() }
    }

    /// Creates the claim that a human is needed, made in the agent's final message.
    #[must_use]
    pub fn needs_human(text: impl Into<String>) -> Self {
        Self { kind: ClaimKind::NeedsHuman, ..Self::complete(text) }
    }

    /// Returns the claim as one that stands until a file, or another state, is changed.
    #[must_use]
    pub fn in_state(self) -> Self {
        Self { source: ClaimSource::State, ..self }
    }

    /// What stands for a claim under `completion.when = "proved"`: something was changed.
    #[must_use]
    pub fn automatic() -> Self {
        Self {
            kind: ClaimKind::Complete,
            detector: Self::AUTOMATIC.to_owned(),
            source: ClaimSource::State,
            text: "no claim is needed: the work was changed".to_owned(),
        }
    }

    /// Whether nobody claimed anything, see [`Claim::automatic`].
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.detector == Self::AUTOMATIC
    }
}

/// Something that looks like a claim but is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    /// The detector's name.
    pub detector: String,
    /// The text in question, such as the line.
    pub text: String,
    /// Line number from 1, in the prompt file or the message.
    pub line: u64,
    /// Why it is no claim and what one looks like; told to the agent.
    pub hint: String,
}

/// What one inspection found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Findings {
    /// Claims, in the order found.
    pub claims: Vec<Claim>,
    /// What was nearly one.
    pub near_misses: Vec<NearMiss>,
    /// What the user should know, such as that it could not look. Not told to the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The input of [`CompletionDetector::inspect`].
#[derive(Clone, Copy, Debug)]
pub struct DetectorInput<'a> {
    /// Where the agent works.
    pub workspace: &'a Path,
    /// The prompt file, if the prompt is one.
    pub prompt_path: Option<&'a Path>,
    /// The prompt as it is on disk now, decoded leniently.
    pub prompt: Option<&'a str>,
    /// The final message of the iteration that just ended well. Absent while it runs, after a failed
    /// iteration, and before the first one.
    pub final_text: Option<&'a str>,
    /// All that the agent was given in the iteration whose final message this is, decoded leniently:
    /// what the orchestrator told it, and the prompt. What stands in it word for word is an echo, and
    /// no claim of the agent's own. Absent without a final message.
    pub given: Option<&'a str>,
}

/// Finds claims.
#[async_trait]
pub trait CompletionDetector: Send + Sync {
    /// Its name, as in `[completion] detectors`.
    fn name(&self) -> &str;

    /// Whether it has to see the agent's events, in [`observe`](Self::observe). Always the same.
    fn observes(&self) -> bool {
        false
    }

    /// Looks at an event while the agent runs, if it [`observes`](Self::observes). For claims made by
    /// tool calls; text is better looked at when it is whole, in [`inspect`](Self::inspect). The agent
    /// waits meanwhile.
    async fn observe(&self, _event: &Event) -> Vec<Claim> {
        Vec::new()
    }

    /// Looks at the workspace and the final message: before the first iteration, after each one, and,
    /// without a final message, whenever the prompt file changes while the agent runs.
    async fn inspect(&self, input: DetectorInput<'_>) -> Findings;

    /// The prompt without the claims this detector would find in it, so that two prompts can be
    /// compared for saying the same task.
    async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(prompt)
    }

    /// One or two sentences for the agent: how to claim completion.
    fn instructions(&self) -> String;

    /// Texts of which at least one stands in everything that says how to claim completion, such as
    /// `<promise>`. An agent that is given none of them is told the [`instructions`](Self::instructions).
    fn forms(&self) -> Vec<String> {
        Vec::new()
    }
}
