//! `go`: `run` with a task.

use ralph_orchestrator_assembly::error::CommandError;

use crate::commands::run::RunArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct GoArgs {
    /// The task: its number, or its name such as ralph-1
    #[arg(id = "go", value_name = "TASK")]
    id: String,
    #[command(flatten)]
    run: RunArgs,
}

impl GoArgs {
    /// Returns the arguments of `run`, and the task.
    ///
    /// # Errors
    /// Another task is named by `--task`.
    pub(crate) fn into_run(self, named: Option<String>) -> Result<(RunArgs, String), CommandError> {
        match named.filter(|named| *named != self.id) {
            Some(named) => Err(CommandError::user(format!(
                "two tasks are named, {} and {named}; leave out --task",
                self.id
            ))),
            None => Ok((self.run, self.id)),
        }
    }
}
