//! The agent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use ralph_adapter_common::spawn;
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Description, ErrorClass, EventSink, Iteration, Launch, Report,
};
use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor, find_program};

use crate::config::Config;
use crate::output;
use crate::prompt::{arguments, deliver};

/// Any program.
pub(crate) struct CommandAgent {
    config: Config,
    /// Found once, so that nothing the agent does to `PATH` changes which program is run.
    program: Result<PathBuf, String>,
    supervisor: Supervisor,
}

impl CommandAgent {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let name = config.program.first().map(String::as_str).unwrap_or_default();
        let program = find_program(name, &context.path, &context.config_dir)
            .map_err(|error| error.to_string());
        Self { config, program, supervisor: supervisor.clone() }
    }

    fn program(&self) -> Result<&PathBuf, AgentError> {
        self.program
            .as_ref()
            .map_err(|message| AgentError::new(ErrorClass::Unavailable, message.clone()))
    }

    fn args(&self) -> &[String] {
        self.config.program.get(1..).unwrap_or_default()
    }

    fn spec(&self, task: Iteration) -> Result<Spec, AgentError> {
        let program = self.program()?.clone();
        let env = environment(&task);
        let call = deliver(self.config.prompt, self.args(), task.prompt, &task.scratch)?;
        let (args, stdin) = (call.args, call.stdin);
        Ok(Spec { program, args, cwd: task.workspace, env, stdin, grace: Grace::default() })
    }
}

fn environment(task: &Iteration) -> BTreeMap<String, String> {
    let mut env = task.env.clone();
    env.entry("RALPH_RUN_ID".to_owned()).or_insert_with(|| task.run.clone());
    env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| task.number.to_string());
    env
}

#[async_trait]
impl Agent for CommandAgent {
    fn describe(&self) -> Description {
        let name = self.config.program.first().map(String::as_str).unwrap_or_default();
        Description {
            name: "command".to_owned(),
            summary: format!("runs {name}"),
            program: self.program.as_ref().ok().cloned(),
            model: None,
            capabilities: output::capabilities(&self.config.output),
            wants_env: Vec::new(),
            strips_env: Vec::new(),
        }
    }

    /// Only looks for the program: what starting it would cost cannot be known.
    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.program().map(|program| format!("found {}", program.display()))
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        let words =
            arguments(self.config.prompt, self.args(), Launch::PROMPT.as_bytes(), &task.scratch);
        Some(Launch {
            program: self.program.as_ref().ok().cloned(),
            argv: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            env: environment(task),
        })
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let spec = self.spec(task)?;
        let process = spawn(&self.supervisor, spec, events).await?;
        output::run(&self.config.output, process, events).await
    }
}
