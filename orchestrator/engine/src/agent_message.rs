//! What a running agent sends to the session.

use ralph_orchestrator_contract::{Claim, Usage, ValidationPreview};
use ralph_orchestrator_machine::{ContextUsage, RateWindow};
use tokio::sync::oneshot;

/// The part of an agent's events that the session handles.
pub(super) enum AgentMessage {
    /// The model in use.
    Model(String),
    Usage(Usage),
    Context(ContextUsage),
    RateWindow(RateWindow),
    Claim(Claim),
    Note(String),
    Validation(ValidationRequest),
    Warning(String),
}

/// A request to validate the work as it is now. The agent waits for the answer.
pub(super) struct ValidationRequest {
    pub(super) final_text: Option<String>,
    pub(super) answer: oneshot::Sender<ValidationPreview>,
}
