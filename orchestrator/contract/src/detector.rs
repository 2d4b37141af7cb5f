//! Those who find claims.

use std::borrow::Cow;
use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::claim::{Claim, NearMiss};
use super::event::Event;

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
    /// works on meanwhile; its iteration ends when all events were answered, or the time for that is over.
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
