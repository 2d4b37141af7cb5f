//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, ErrorClass, EventSink, Iteration,
    Report,
};
use ralph_orchestrator_supervisor::Supervisor;

use crate::config::Config;
use crate::player::Player;
use crate::session::{Session, SessionError, Sessions};
use crate::shell::Shell;

/// Replays recorded sessions.
pub(crate) struct ReplayAgent {
    sessions: Sessions,
    shell: Shell,
}

impl ReplayAgent {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let sessions = Sessions::new(context.config_dir.join(config.session));
        Self { sessions, shell: Shell::new(context, supervisor) }
    }
}

#[async_trait]
impl Agent for ReplayAgent {
    fn describe(&self) -> Description {
        Description {
            name: "replay".to_owned(),
            summary: "recorded session: costs nothing".to_owned(),
            // Its cost is known: nothing.
            capabilities: Capabilities { cost: true, free: true, ..Capabilities::default() },
            ..Description::default()
        }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let unavailable = |message| AgentError::new(ErrorClass::Unavailable, message);
        self.shell.program().map_err(|message| unavailable(message.to_owned()))?;
        let files = self.sessions.files().map_err(not_there)?;
        let count = files.len();
        for file in files {
            Session::read(file).map_err(not_there)?;
        }
        Ok(format!("recorded sessions: {count}, in {}", self.sessions.path().display()))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let file = self.sessions.file(task.number).map_err(not_there)?;
        tracing::debug!(session = %file.display(), "a recorded session is replayed");
        let session = Session::read(file).map_err(not_there)?;
        Player::new(&session, &self.shell, task, events).play().await
    }
}

#[allow(clippy::needless_pass_by_value)]
fn not_there(error: SessionError) -> AgentError {
    AgentError::new(ErrorClass::Unavailable, error.to_string())
}
