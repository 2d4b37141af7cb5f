//! Finds an agent's program and asks for its version.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use ralph_orchestrator_contract::{AgentError, BuildContext, ErrorClass};
use ralph_orchestrator_supervisor::{CaptureLimit, Grace, Spec, Supervisor, find_program};
use ralph_orchestrator_text::plain_line;

/// How long `--version`, or another question, may take.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// How much is shown of its version, and of why it printed none, in characters.
const MAX_VERSION: usize = 200;
const MAX_PROBLEM: usize = 500;

/// A program that is found once: what an iteration puts in the way later is not run.
#[derive(Debug)]
pub struct Program {
    name: String,
    /// How to come by it, for people.
    install: Option<String>,
    context: BuildContext,
    supervisor: Supervisor,
    found: OnceLock<PathBuf>,
}

impl Program {
    /// Looks for the program, a name or a path; that it is missing is reported when it is needed, with
    /// how to `install` it.
    #[must_use]
    pub fn new(
        name: &str,
        install: Option<String>,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Self {
        let this = Self {
            name: name.to_owned(),
            install,
            context: context.clone(),
            supervisor: supervisor.clone(),
            found: OnceLock::new(),
        };
        let _ = this.path();
        this
    }

    /// Returns its path, if it was found.
    #[must_use]
    pub fn found(&self) -> Option<&PathBuf> {
        self.found.get()
    }

    /// Returns who starts it.
    #[must_use]
    pub const fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Returns its path.
    ///
    /// # Errors
    /// It is still not there.
    pub fn path(&self) -> Result<PathBuf, AgentError> {
        if let Some(program) = self.found.get() {
            return Ok(program.clone());
        }
        let found = find_program(&self.name, &self.context.path, &self.context.config_dir)
            .map_err(|error| self.unavailable(&error.to_string()))?;
        let found = std::path::absolute(&found).unwrap_or(found);
        Ok(self.found.get_or_init(|| found).clone())
    }

    /// Returns the error that it cannot be used, why, and how to install it.
    #[must_use]
    pub fn unavailable(&self, what: &str) -> AgentError {
        let install = self.install.iter().map(|how| format!(". {how}")).collect::<String>();
        let message = format!("the agent `{}` is not available: {what}{install}", self.name);
        AgentError::new(ErrorClass::Unavailable, message)
    }

    /// Returns the folder in which it is tried: that of the configuration, unless the program has a root of its own,
    /// in which that need not exist.
    #[must_use]
    pub fn probe_folder(&self) -> PathBuf {
        if self.supervisor.has_root() { "/".into() } else { self.context.config_dir.clone() }
    }

    /// Returns its version and path, having run it with `--version`.
    ///
    /// # Errors
    /// It is not there, or does not work in this environment.
    pub async fn version(&self, env: BTreeMap<String, String>) -> Result<String, AgentError> {
        let program = self.path()?;
        let spec = self.spec(program.clone(), &["--version"], env);
        let version = format!("`{} --version`", program.display());
        let output = self
            .supervisor
            .output(spec, CaptureLimit::default(), tokio::time::sleep(VERSION_TIMEOUT))
            .await
            .map_err(|error| self.unavailable(&error.to_string()))?;
        if output.stopped {
            let seconds = VERSION_TIMEOUT.as_secs();
            return Err(self.unavailable(&format!("{version} took more than {seconds} s")));
        }
        let (stdout, stderr) = (output.stdout.text(), output.stderr.text());
        let first = plain_line(stdout.lines().next().unwrap_or_default(), MAX_VERSION);
        if !output.exit.ending.is_success() || first.is_empty() {
            let exit = &output.exit;
            let said = plain_line(&stderr, MAX_PROBLEM);
            return Err(self.unavailable(&format!("{version} ended with {exit}: {said}")));
        }
        Ok(format!("{first} at {}", program.display()))
    }

    /// Runs it with these arguments to its end. Returns whether it succeeded, and what it printed; `None` if it could not
    /// be started, or took too long.
    pub async fn ask(
        &self,
        args: &[&str],
        env: BTreeMap<String, String>,
    ) -> Option<(bool, String)> {
        let spec = self.spec(self.path().ok()?, args, env);
        let timeout = tokio::time::sleep(VERSION_TIMEOUT);
        let output = self.supervisor.output(spec, CaptureLimit::default(), timeout).await.ok()?;
        let text = format!("{}\n{}", output.stdout.text(), output.stderr.text());
        (!output.stopped).then(|| (output.exit.ending.is_success(), text))
    }

    fn spec(&self, program: PathBuf, args: &[&str], env: BTreeMap<String, String>) -> Spec {
        Spec {
            program,
            args: args.iter().map(Into::into).collect(),
            cwd: self.probe_folder(),
            env,
            stdin: Vec::new(),
            grace: Grace::default(),
        }
    }
}
