//! Claims, and what is nearly one.

use serde::{Deserialize, Serialize};

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
    /// [`DetectorInput::given`](super::DetectorInput::given) was not said by the agent.
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
