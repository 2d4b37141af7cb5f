//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_adapter_common::claude_program::{ClaudeOptions, ClaudeProgram, conclude};
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_adapter_common::{LineHandler, ProcessRun, spawn};
use ralph_orchestrator_contract::{
    Agent, AgentError, Capabilities, Description, EventSink, Iteration, Launch, Report,
};

use crate::config::ARGS;

pub(crate) struct ClaudeCli {
    pub(crate) options: ClaudeOptions,
    pub(crate) program: ClaudeProgram,
}

#[async_trait]
impl Agent for ClaudeCli {
    fn describe(&self) -> Description {
        let model = self.options.model.clone();
        self.program.describe("claude-cli", "claude -p", model, Capabilities::default())
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.program.check(env).await
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        Some(self.program.launch(task, &self.options.argv(&ARGS, task.budget.cost)))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let args = self.options.argv(&ARGS, task.budget.cost);
        let prompt = task.prompt.clone();
        let spec = self.program.spec(&task, args, prompt)?;
        let process = spawn(self.program.supervisor(), spec, events).await?;
        let handler = LineHandler::new(ClaudeParser::new()).concluded_by(conclude);
        ProcessRun::new(process, events, handler).run().await
    }
}
