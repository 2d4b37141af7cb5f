//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_adapter_common::agent_tools::{ToolServer, launched_tools_file, tools_file};
use ralph_adapter_common::{LineHandler, ProcessRun, Program, spawn};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, ErrorClass, EventSink, Iteration,
    Launch, Report,
};
use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor};

use crate::config::Config;
use crate::environment::{STRIPS, WANTS, codex_home};
use crate::login;
use crate::output::CodexOutput;
use crate::recording::Recording;

pub(crate) struct Codex {
    config: Config,
    program: Program,
}

impl Codex {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let install = "To install Codex: `npm install -g @openai/codex`".to_owned();
        let program = Program::new(&config.program, Some(install), context, supervisor);
        Self { config, program }
    }
}

#[async_trait]
impl Agent for Codex {
    fn describe(&self) -> Description {
        Description {
            name: "codex".to_owned(),
            summary: match &self.config.model {
                Some(model) => format!("Codex (codex exec), model {model}"),
                None => "Codex (codex exec)".to_owned(),
            },
            program: self.program.found().cloned(),
            model: self.config.model.clone(),
            capabilities: Capabilities {
                tokens: true,
                context: true,
                rate_windows: true,
                tool_calls: true,
                interrupt: true,
                ..Capabilities::default()
            },
            wants_env: WANTS.map(str::to_owned).into(),
            strips_env: STRIPS.map(str::to_owned).into(),
        }
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let version = self.program.version(env.clone()).await?;
        login::check(&self.program, &self.config.args, env).await?;
        Ok(version)
    }

    fn launch(&self, _task: &Iteration) -> Option<Launch> {
        let argv = self.config.argv(&launched_tools_file());
        let argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Some(Launch { program: self.program.found().cloned(), argv, ..Launch::default() })
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let program = self.program.path()?;
        let prompt = str::from_utf8(&task.prompt);
        if prompt.map_or(true, |prompt| prompt.trim().is_empty()) {
            let message = "the prompt is empty or no UTF-8, which codex does not take";
            return Err(AgentError::new(ErrorClass::InvalidRequest, message));
        }
        let recording = codex_home(&task.env).map(|home| Recording::new(&home));
        let spec = Spec {
            program,
            args: self.config.argv(&tools_file(&task)),
            cwd: task.workspace.clone(),
            env: task.env.clone(),
            stdin: task.prompt.clone(),
            grace: Grace::default(),
        };
        let run = async {
            let process = spawn(self.program.supervisor(), spec, events).await?;
            let handler = LineHandler::new(CodexOutput::new(recording));
            ProcessRun::new(process, events, handler).run().await
        };
        if self.config.tools { ToolServer::beside(&task, events, run).await } else { run.await }
    }
}
