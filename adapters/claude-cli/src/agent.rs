//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_adapter_common::claude_program::Program;
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, EventSink, Iteration, Launch,
    Report,
};
use ralph_orchestrator_supervisor::Supervisor;

use tracing::debug;

use crate::config::Config;
use crate::session::Session;

pub(crate) struct ClaudeCli {
    config: Config,
    program: Program,
}

impl ClaudeCli {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let options = &config.0;
        let bypass = options.bypasses_permissions().then_some("allowed_tools");
        let program = Program::new(&options.program, context, supervisor, bypass);
        Self { config, program }
    }
}

#[async_trait]
impl Agent for ClaudeCli {
    fn describe(&self) -> Description {
        let model = self.config.0.model.clone();
        self.program.describe("claude-cli", "claude -p", model, Capabilities::default())
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.program.check(env).await
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        Some(self.program.launch(task, &self.config.argv(task.budget.cost)))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let args = self.config.argv(task.budget.cost);
        debug!(args = args.len(), "agent is started");
        let prompt = task.prompt.clone();
        let spec = self.program.spec(&task, args, prompt)?;
        let process = self.program.supervisor().spawn(spec).await;
        let process = process.map_err(|error| self.program.not_started(&error))?;
        Session::new(process, events).run().await
    }
}
