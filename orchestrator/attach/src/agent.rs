//! The agent of a run that is attached to a session: it has worked already, and only reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_orchestrator_contract::{
    Agent, AgentError, Capabilities, ClaimKind, Description, Event, EventSink, Iteration, Report,
    Tokens, Usage, async_trait,
};
use serde::{Deserialize, Serialize};

/// Its name in the configuration of such a run.
pub(crate) const NAME: &str = "attached-session";

/// What a session has done since it stopped last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SessionWork {
    /// The agent's name for it.
    pub(crate) session: String,
    pub(crate) model: Option<String>,
    pub(crate) tokens: Tokens,
    /// The agent's last message.
    pub(crate) message: String,
}

/// Reports the work of a session.
#[derive(Clone, Default)]
pub(crate) struct AttachedAgent {
    work: SessionWork,
    claims: Arc<AtomicBool>,
}

impl AttachedAgent {
    pub(crate) fn new(work: SessionWork) -> Self {
        Self { work, claims: Arc::default() }
    }

    /// That the session stops is a claim.
    pub(crate) fn claim(&self) {
        self.claims.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Agent for AttachedAgent {
    fn describe(&self) -> Description {
        Description {
            name: NAME.into(),
            summary: "a session that a person runs".into(),
            model: self.work.model.clone(),
            capabilities: Capabilities { tokens: true, ..Capabilities::default() },
            ..Description::default()
        }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        Ok("a session that a person runs".into())
    }

    async fn run(&self, _: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let SessionWork { session, model, tokens, message } = self.work.clone();
        events.emit(Event::Session { id: session.clone(), model }).await;
        let usage = Usage { tokens: Some(tokens), ..Usage::default() };
        events.emit(Event::Usage { usage }).await;
        if !message.is_empty() {
            events.emit(Event::Text { text: message.clone() }).await;
        }
        if self.claims.load(Ordering::Relaxed) {
            let text = "the session wants to stop".to_owned();
            events.emit(Event::Claim { kind: ClaimKind::Complete, text }).await;
        }
        Ok(Report { final_text: Some(message), usage, session: Some(session), ..Report::default() })
    }
}
