//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, ErrorClass, EventSink, Iteration,
    Report,
};
use ralph_orchestrator_supervisor::Supervisor;

use crate::config::Config;
use crate::pace::Pace;
use crate::play::Play;
use crate::session::{Session, SessionError, Sessions};
use crate::shell::Shell;

/// Recorded sessions.
pub(crate) struct ReplayAgent {
    sessions: Sessions,
    speed: f64,
    shell: Shell,
}

impl ReplayAgent {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let sessions = Sessions::new(context.config_dir.join(config.session));
        Self { sessions, speed: config.speed, shell: Shell::new(context, supervisor) }
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
        tracing::debug!(session = %file.display(), "a recorded session is performed");
        let session = Session::read(file).map_err(not_there)?;
        Play::new(&session, &self.shell, Pace::new(self.speed), task, events).perform().await
    }
}

#[allow(clippy::needless_pass_by_value)]
fn not_there(error: SessionError) -> AgentError {
    AgentError::new(ErrorClass::Unavailable, error.to_string())
}
