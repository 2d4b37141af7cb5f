//! The program: finding it, and looking whether it works.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use orchestrator::contract::{AgentError, BuildContext, ErrorClass, Iteration, Usd};
use ralph_orchestrator_supervise::{
    CaptureLimit, Grace, SpawnError, Spec, Supervisor, find_program,
};

use crate::environment;

/// How long `claude --version` may take.
const CHECK: Duration = Duration::from_secs(20);

/// The program `claude`, as it is configured.
#[derive(Debug)]
pub struct Program {
    name: String,
    context: BuildContext,
    supervisor: Supervisor,
    /// Nobody is asked for leave, and the key that lists what is allowed otherwise.
    bypass: Option<&'static str>,
    /// Found once: what an iteration puts in the way later is not run.
    found: OnceLock<PathBuf>,
}

impl Program {
    /// Looks for the program; that it is missing is reported when it is needed. `bypass` if it is to
    /// ask nobody for leave, with the key that lists what is allowed otherwise.
    #[must_use]
    pub fn new(
        name: &str,
        context: &BuildContext,
        supervisor: &Supervisor,
        bypass: Option<&'static str>,
    ) -> Self {
        let this = Self {
            name: name.to_owned(),
            context: context.clone(),
            supervisor: supervisor.clone(),
            bypass,
            found: OnceLock::new(),
        };
        let _ = this.path();
        this
    }

    /// Where it is, if it was found.
    #[must_use]
    pub fn found(&self) -> Option<&PathBuf> {
        self.found.get()
    }

    /// Who starts it.
    #[must_use]
    pub const fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    fn path(&self) -> Result<PathBuf, AgentError> {
        if let Some(program) = self.found.get() {
            return Ok(program.clone());
        }
        let found = find_program(&self.name, &self.context.path, &self.context.config_dir)
            .map_err(|error| self.unavailable(&error.to_string()))?;
        let found = std::path::absolute(&found).unwrap_or(found);
        Ok(self.found.get_or_init(|| found).clone())
    }

    fn unavailable(&self, what: &str) -> AgentError {
        let program = &self.name;
        AgentError::new(
            ErrorClass::Unavailable,
            format!(
                "the agent `{program}` is not available: {what}. To install Claude Code: \
                 `npm install -g @anthropic-ai/claude-code`"
            ),
        )
    }

    /// The program could not be started.
    #[must_use]
    pub fn not_started(&self, error: &SpawnError) -> AgentError {
        self.unavailable(&error.to_string())
    }

    fn refuse_root(&self, env: &BTreeMap<String, String>) -> Result<(), AgentError> {
        match self.bypass {
            Some(allow) => {
                environment::refuse_root(rustix::process::getuid().is_root(), env, allow)
            }
            None => Ok(()),
        }
    }

    /// Says which version is there, having asked it.
    ///
    /// # Errors
    /// It is not there, does not work, or would not start in this environment.
    pub async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let program = self.path()?;
        self.refuse_root(env)?;
        let spec = Spec {
            program: program.clone(),
            args: vec!["--version".into()],
            cwd: self.context.config_dir.clone(),
            env: environment::complete(env.clone()),
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let version = format!("`{} --version`", program.display());
        let output = self
            .supervisor
            .output(spec, CaptureLimit::default(), tokio::time::sleep(CHECK))
            .await
            .map_err(|error| self.not_started(&error))?;
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

    /// What to start for a task.
    ///
    /// # Errors
    /// It is not there, would not start, or could do nothing with the task.
    pub fn spec(
        &self,
        task: &Iteration,
        args: Vec<OsString>,
        stdin: Vec<u8>,
    ) -> Result<Spec, AgentError> {
        let program = self.path()?;
        self.refuse_root(&task.env)?;
        if task.prompt.is_empty() {
            let message = "the prompt is empty, which claude takes for a missing one";
            return Err(AgentError::new(ErrorClass::InvalidRequest, message));
        }
        if task.budget.cost == Some(Usd::ZERO) {
            let message = "nothing is left of the iteration's budget";
            return Err(AgentError::new(ErrorClass::AgentLimit, message));
        }
        Ok(Spec {
            program,
            args,
            cwd: task.workspace.clone(),
            env: environment::complete(task.env.clone()),
            stdin,
            grace: Grace::default(),
        })
    }
}
