//! Why there is no run.

use crate::compiled_in::NameError;
use crate::error::CommandError;

/// A run could not be started, or had to be interrupted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrchestratorError {
    /// Each start of a process would run this program anew.
    #[error(
        "this program cannot supervise processes: add `ralph_orchestrator::intercept();` as the first line of \
         `main`, before any thread or runtime starts"
    )]
    NotIntercepted,
    /// The builder was given none.
    #[error("there is no configuration: call `config_file` or `config_str` before `build`")]
    NoConfiguration,
    /// A name of what is compiled in cannot be.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The configuration asks for several runs, or for another folder.
    #[error(
        "`{key}` cannot be used inside of another program; remove it, or start `ralph-orchestrator run`"
    )]
    Unsupported {
        /// The key.
        key: &'static str,
    },
    /// The configuration is wrong, the run is held by another process, the agent is missing, or anything else for
    /// which `ralph-orchestrator run` would not start or continue.
    #[error("{0}")]
    Run(String),
}

impl From<CommandError> for OrchestratorError {
    fn from(error: CommandError) -> Self {
        let text = error.render(false, None);
        Self::Run(text.strip_prefix("error: ").map_or_else(|| text.clone(), str::to_owned))
    }
}
