//! The workspace on which recorded tool calls happen again.

use ralph_orchestrator_contract::Leftovers;
use serde_json::Value;

use crate::cancel::Cancel;
use crate::files::{self, FileError};
use crate::places::Places;
use crate::session::Session;
use crate::shell::{Seat, Shell};

/// What performs tool calls.
pub(crate) struct Stage<'a> {
    pub(crate) session: &'a Session,
    pub(crate) shell: &'a Shell,
    pub(crate) places: Places,
    pub(crate) seat: Seat,
    /// What was left of the processes of commands.
    pub(crate) leftovers: Leftovers,
}

/// What a tool call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// What became of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Performed {
    /// It happened, and came to this.
    Really(Answer),
    /// It is only shown, with its recorded answer.
    Shown,
    /// The orchestrator asked for the end.
    Cancelled,
}

impl Stage<'_> {
    /// Names the places of this workspace in a call's input.
    pub(crate) fn rename(&self, name: &str, input: &mut Value) {
        let (key, command) = if name == "Bash" { ("command", true) } else { ("file_path", false) };
        let Some(Value::String(recorded)) = input.get_mut(key) else { return };
        *recorded = if command {
            self.places.rename_in_command(recorded)
        } else {
            self.places.rename(recorded).to_string_lossy().into_owned()
        };
    }

    /// Does what a call did, given its input with the places of this workspace.
    pub(crate) async fn perform(
        &mut self,
        id: &str,
        name: &str,
        input: &Value,
        cancel: &mut Cancel<'_>,
    ) -> Performed {
        if self.session.denied.contains(id) {
            return Performed::Shown;
        }
        let change = match name {
            "Bash" => return self.command(input, cancel).await,
            "Write" => files::write,
            "Edit" => files::edit,
            "MultiEdit" => files::multi_edit,
            _ => return Performed::Shown,
        };
        // A change that failed did not happen, perhaps for a reason that is not there any more.
        if self.session.failed.contains(id) {
            return Performed::Shown;
        }
        Performed::Really(answer(change(input, &self.places)))
    }

    async fn command(&mut self, input: &Value, cancel: &mut Cancel<'_>) -> Performed {
        let refused = |text: &str| Answer { text: text.to_owned(), is_error: true };
        let Some(command) = input.get("command").and_then(Value::as_str) else {
            return Performed::Really(refused("the recorded call has no command"));
        };
        if input.get("run_in_background") == Some(&Value::Bool(true)) {
            return Performed::Really(refused(
                "a recorded command in the background is not started again: nothing would end it",
            ));
        }
        let timeout = input.get("timeout").and_then(Value::as_u64);
        match self.shell.run(command, timeout, &mut self.seat, cancel).await {
            Ok(ran) => {
                self.leftovers.add(ran.leftovers);
                Performed::Really(Answer { text: ran.text, is_error: ran.is_error })
            }
            Err(leftovers) => {
                self.leftovers.add(leftovers);
                Performed::Cancelled
            }
        }
    }
}

fn answer(done: Result<String, FileError>) -> Answer {
    match done {
        Ok(text) => Answer { text, is_error: false },
        Err(error) => Answer { text: error.to_string(), is_error: true },
    }
}
