//! Finds the program, and checks whether it works.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ralph_orchestrator_contract::{
    AgentError, BuildContext, Capabilities, Description, ErrorClass, Iteration, Launch, Usd,
};
use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor};

use crate::Program;
use crate::claude_program::environment::{self, STRIPS, WANTS};
use crate::claude_program::options::BUDGET;

/// The program `claude`, as it is configured.
#[derive(Debug)]
pub struct ClaudeProgram {
    program: Program,
    /// Permissions are bypassed; the key that lists what is allowed otherwise.
    bypass: Option<&'static str>,
}

impl ClaudeProgram {
    /// Looks for the program; that it is missing is reported when it is needed. `bypass` if permissions
    /// are bypassed, with the key that lists what is allowed otherwise.
    #[must_use]
    pub fn new(
        name: &str,
        context: &BuildContext,
        supervisor: &Supervisor,
        bypass: Option<&'static str>,
    ) -> Self {
        let install = "To install Claude Code: `npm install -g @anthropic-ai/claude-code`";
        let program = Program::new(name, Some(install.to_owned()), context, supervisor);
        Self { program, bypass }
    }

    /// Returns who starts it.
    #[must_use]
    pub const fn supervisor(&self) -> &Supervisor {
        self.program.supervisor()
    }

    /// Describes the adapter of this name, which runs the program in `mode` and has `more` capabilities than
    /// every one for `claude`.
    #[must_use]
    pub fn describe(
        &self,
        adapter: &str,
        mode: &str,
        model: Option<String>,
        more: Capabilities,
    ) -> Description {
        let of_model = model.iter().map(|model| format!(", model {model}")).collect::<String>();
        Description {
            name: adapter.to_owned(),
            summary: format!("Claude Code ({mode}){of_model}"),
            program: self.program.found().cloned(),
            model,
            capabilities: Capabilities {
                cost: true,
                tokens: true,
                context: true,
                rate_windows: true,
                tool_calls: true,
                interrupt: true,
                ..more
            },
            wants_env: WANTS.map(str::to_owned).into(),
            strips_env: STRIPS.map(str::to_owned).into(),
        }
    }

    fn refuse_root(&self, env: &BTreeMap<String, String>) -> Result<(), AgentError> {
        match self.bypass {
            Some(allow) => {
                environment::refuse_root(rustix::process::getuid().is_root(), env, allow)
            }
            None => Ok(()),
        }
    }

    /// Returns its version and path, having run it.
    ///
    /// # Errors
    /// It is not there, does not work, or would not start in this environment.
    pub async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.program.path()?;
        self.refuse_root(env)?;
        self.program.version(environment::complete(env.clone())).await
    }

    /// Returns what would be started for a task, with these arguments.
    #[must_use]
    pub fn launch(&self, task: &Iteration, args: &[OsString]) -> Launch {
        let mut argv: Vec<String> =
            args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let budget = argv.iter().position(|word| word == BUDGET);
        if let Some(left) = budget.and_then(|at| argv.get_mut(at + 1)) {
            Launch::BUDGET.clone_into(left);
        }
        Launch {
            program: self.program.found().cloned(),
            argv,
            env: environment::complete(task.env.clone()),
        }
    }

    /// Returns what to start for a task.
    ///
    /// # Errors
    /// It is not there, would not start, or could do nothing with the task.
    pub fn spec(
        &self,
        task: &Iteration,
        args: Vec<OsString>,
        stdin: Vec<u8>,
    ) -> Result<Spec, AgentError> {
        let program = self.program.path()?;
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
