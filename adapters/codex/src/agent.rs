//! The agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use orchestrator::contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, ErrorClass, EventSink, Iteration,
    Report,
};
use ralph_adapter_drive::{Drive, LINGER, Lines};
use ralph_orchestrator_supervise::{CaptureLimit, Grace, Spec, Supervisor, find_program};

use crate::config::Config;
use crate::environment::{STRIPS, WANTS, codex_home};
use crate::output::Output;
use crate::recording::Recording;

/// How long `codex --version` may take.
const CHECK: Duration = Duration::from_secs(20);

pub(crate) struct Codex {
    config: Config,
    context: BuildContext,
    supervisor: Supervisor,
    /// Found once: what an iteration puts in the way later is not run.
    program: OnceLock<PathBuf>,
}

impl Codex {
    pub(crate) fn new(config: Config, context: &BuildContext, supervisor: &Supervisor) -> Self {
        let this = Self {
            config,
            context: context.clone(),
            supervisor: supervisor.clone(),
            program: OnceLock::new(),
        };
        // Missing is reported when it is needed.
        let _ = this.program();
        this
    }

    fn program(&self) -> Result<PathBuf, AgentError> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
        }
        let found =
            find_program(&self.config.program, &self.context.path, &self.context.config_dir)
                .map_err(|error| self.unavailable(&error.to_string()))?;
        let found = std::path::absolute(&found).unwrap_or(found);
        Ok(self.program.get_or_init(|| found).clone())
    }

    fn unavailable(&self, what: &str) -> AgentError {
        let program = &self.config.program;
        AgentError::new(
            ErrorClass::Unavailable,
            format!(
                "the agent `{program}` is not available: {what}. To install Codex: \
                 `npm install -g @openai/codex`"
            ),
        )
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
            program: self.program.get().cloned(),
            model: self.config.model.clone(),
            capabilities: Capabilities {
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
        let program = self.program()?;
        let spec = Spec {
            program: program.clone(),
            args: vec!["--version".into()],
            cwd: self.context.config_dir.clone(),
            env: env.clone(),
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let version = format!("`{} --version`", program.display());
        let output = self
            .supervisor
            .output(spec, CaptureLimit::default(), tokio::time::sleep(CHECK))
            .await
            .map_err(|error| self.unavailable(&error.to_string()))?;
        if output.stopped {
            let seconds = CHECK.as_secs();
            return Err(self.unavailable(&format!("{version} took more than {seconds} s")));
        }
        let (stdout, stderr) = (output.stdout.text(), output.stderr.text());
        let first = stdout.lines().next().unwrap_or_default().trim();
        if !output.exit.ending.is_success() || first.is_empty() {
            let exit = &output.exit;
            let said = stderr.trim();
            return Err(self.unavailable(&format!("{version} ended with {exit}: {said:.500}")));
        }
        Ok(format!("{first:.200} at {}", program.display()))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let program = self.program()?;
        let prompt = str::from_utf8(&task.prompt);
        if prompt.map_or(true, |prompt| prompt.trim().is_empty()) {
            let message = "the prompt is empty or no UTF-8, which codex does not take";
            return Err(AgentError::new(ErrorClass::InvalidRequest, message));
        }
        let recording = codex_home(&task.env).map(|home| Recording::new(&home));
        let spec = Spec {
            program,
            args: self.config.argv(),
            cwd: task.workspace,
            env: task.env,
            stdin: task.prompt,
            grace: Grace::default(),
        };
        let output = Lines::new(Box::new(Output::new(recording)));
        Drive::new(events, Box::new(output), LINGER).run(&self.supervisor, spec).await
    }
}
