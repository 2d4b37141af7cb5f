//! The agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;
use ralph_adapter_common::agent_tools::{ToolServer, launched_tools_file, tools_file};
use ralph_adapter_common::claude_program::{ClaudeOptions, ClaudeProgram, conclude};
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_adapter_common::{LineHandler, ProcessRun, spawn};
use ralph_orchestrator_contract::{
    Agent, AgentError, Capabilities, Description, EventSink, Iteration, Launch, Report, Usd,
};

use crate::config::{ARGS, args_with_tools};

pub(crate) struct ClaudeCli {
    pub(crate) options: ClaudeOptions,
    pub(crate) program: ClaudeProgram,
    /// The agent has the orchestrator's tools.
    pub(crate) has_tools: bool,
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
        let argv = self.argv(&launched_tools_file(), task.budget.cost);
        Some(self.program.launch(task, &argv))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let prompt = task.prompt.clone();
        let spec =
            self.program.spec(&task, self.argv(&tools_file(&task), task.budget.cost), prompt)?;
        let run = async {
            let process = spawn(self.program.supervisor(), spec, events).await?;
            let handler = LineHandler::new(ClaudeParser::new()).concluded_by(conclude);
            ProcessRun::new(process, events, handler).run().await
        };
        if self.has_tools { ToolServer::beside(&task, events, run).await } else { run.await }
    }
}

impl ClaudeCli {
    fn argv(&self, tools_file: &Path, budget: Option<Usd>) -> Vec<OsString> {
        if !self.has_tools {
            return self.options.argv(&ARGS, budget);
        }
        let first = args_with_tools(tools_file);
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        self.options.argv(&first, budget)
    }
}
