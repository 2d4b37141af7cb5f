//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use orchestrator::contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, EventSink, Iteration, Report,
};
use ralph_adapter_claude_program::{Program, STRIPS, WANTS};
use ralph_orchestrator_supervise::Supervisor;

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
        Description {
            name: "claude-cli".to_owned(),
            summary: match &model {
                Some(model) => format!("Claude Code (claude -p), model {model}"),
                None => "Claude Code (claude -p)".to_owned(),
            },
            program: self.program.found().cloned(),
            model,
            capabilities: Capabilities {
                cost: true,
                tokens: true,
                context: true,
                interrupt: true,
                ..Capabilities::default()
            },
            wants_env: WANTS.map(str::to_owned).into(),
            strips_env: STRIPS.map(str::to_owned).into(),
        }
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.program.check(env).await
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let args = self.config.argv(task.budget.cost);
        let prompt = task.prompt.clone();
        let spec = self.program.spec(&task, args, prompt)?;
        let process = self.program.supervisor().spawn(spec).await;
        let process = process.map_err(|error| self.program.not_started(&error))?;
        Session::new(process, events).run().await
    }
}
