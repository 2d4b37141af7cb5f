//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_adapter_common::claude_program::ClaudeProgram;
use ralph_adapter_common::{LineHandler, ProcessRun, spawn};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, EventSink, Iteration, Launch,
    Report,
};
use ralph_orchestrator_supervisor::Supervisor;

use crate::config::Config;
use crate::output::ClaudeOutput;

pub(crate) struct ClaudeCli {
    config: Config,
    program: ClaudeProgram,
}

impl ClaudeCli {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let options = &config.0;
        let bypass = options.bypasses_permissions().then_some("allowed_tools");
        let program = ClaudeProgram::new(&options.program, context, supervisor, bypass);
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
        let prompt = task.prompt.clone();
        let spec = self.program.spec(&task, args, prompt)?;
        let process = spawn(self.program.supervisor(), spec, events).await?;
        ProcessRun::new(process, events, LineHandler::new(ClaudeOutput::default())).run().await
    }
}
