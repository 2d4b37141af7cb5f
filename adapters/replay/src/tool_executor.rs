//! Executes recorded tool calls in the workspace.

use ralph_orchestrator_contract::Leftovers;
use serde_json::Value;

use crate::cancellation::Cancellation;
use crate::files::{self, FileError};
use crate::path_mapping::PathMapper;
use crate::session::Session;
use crate::shell::{Shell, ShellState};

/// Executes tool calls.
pub(crate) struct ToolExecutor<'a> {
    pub(crate) session: &'a Session,
    pub(crate) shell: &'a Shell,
    pub(crate) paths: PathMapper,
    pub(crate) shell_state: ShellState,
    /// Processes that commands left behind.
    pub(crate) leftovers: Leftovers,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolResult {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// How a recorded tool call was handled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToolExecution {
    /// It was executed, with this result.
    Executed(ToolResult),
    /// It is only shown, with its recorded result.
    Shown,
    /// The orchestrator asked for the end.
    Cancelled,
}

impl ToolExecutor<'_> {
    /// Replaces recorded paths in a call's input by those of this workspace.
    pub(crate) fn map_paths(&self, name: &str, input: &mut Value) {
        let (key, command) = if name == "Bash" { ("command", true) } else { ("file_path", false) };
        let Some(Value::String(recorded)) = input.get_mut(key) else { return };
        *recorded = if command {
            self.paths.map_command(recorded)
        } else {
            self.paths.map(recorded).to_string_lossy().into_owned()
        };
    }

    /// Executes a call, given its input with the paths of this workspace.
    pub(crate) async fn execute(
        &mut self,
        id: &str,
        name: &str,
        input: &Value,
        cancel: &mut Cancellation<'_>,
    ) -> ToolExecution {
        if self.session.denied.contains(id) {
            return ToolExecution::Shown;
        }
        let change = match name {
            "Bash" => return self.command(input, cancel).await,
            "Write" => files::write,
            "Edit" => files::edit,
            "MultiEdit" => files::multi_edit,
            _ => return ToolExecution::Shown,
        };
        // A change that failed did not happen, perhaps for a reason that is not there any more.
        if self.session.failed.contains(id) {
            return ToolExecution::Shown;
        }
        ToolExecution::Executed(result_of(change(input, &self.paths)))
    }

    async fn command(&mut self, input: &Value, cancel: &mut Cancellation<'_>) -> ToolExecution {
        let refused = |text: &str| ToolResult { text: text.to_owned(), is_error: true };
        let Some(command) = input.get("command").and_then(Value::as_str) else {
            return ToolExecution::Executed(refused("the recorded call has no command"));
        };
        if input.get("run_in_background") == Some(&Value::Bool(true)) {
            return ToolExecution::Executed(refused(
                "a recorded command in the background is not started again: nothing would end it",
            ));
        }
        let timeout = input.get("timeout").and_then(Value::as_u64);
        match self.shell.run(command, timeout, &mut self.shell_state, cancel).await {
            Ok(result) => {
                self.leftovers.add(result.leftovers);
                ToolExecution::Executed(ToolResult { text: result.text, is_error: result.is_error })
            }
            Err(leftovers) => {
                self.leftovers.add(leftovers);
                ToolExecution::Cancelled
            }
        }
    }
}

fn result_of(done: Result<String, FileError>) -> ToolResult {
    match done {
        Ok(text) => ToolResult { text, is_error: false },
        Err(error) => ToolResult { text: error.to_string(), is_error: true },
    }
}
