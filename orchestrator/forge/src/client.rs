//! Asks a code host about one repository.

use std::sync::{Arc, Mutex, PoisonError};

use crate::commands::{Arguments, MOST_ISSUES, PrintedIssue};
use crate::error::ForgeError;
use crate::host::CodeHost;
use crate::program::{ProgramOutput, ProgramPlace, ProgramRequest, RunHostProgram};

/// Most bytes that a program may print.
const MAX_OUTPUT: usize = 64 * 1024 * 1024;

/// Asks a code host about one repository. Calls block until its program has exited.
pub struct HostClient {
    host: CodeHost,
    runner: Arc<dyn RunHostProgram>,
    /// As the user named it, or once it was found.
    repository: Mutex<Option<String>>,
}

impl HostClient {
    /// Returns a client for this repository; without one, for that of the workspace as the host's program finds it.
    #[must_use]
    pub fn new(
        host: CodeHost,
        runner: Arc<dyn RunHostProgram>,
        repository: Option<String>,
    ) -> Self {
        Self { host, runner, repository: Mutex::new(repository) }
    }

    /// Returns the host.
    #[must_use]
    pub const fn host(&self) -> CodeHost {
        self.host
    }

    /// Returns the repository, and finds it once if it was not named: what an agent makes of the workspace's remotes
    /// later has no say.
    fn repository(&self) -> Result<String, ForgeError> {
        let mut known = self.repository.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let arguments = self.host.find_repository();
        let output = self.start(arguments.clone(), Vec::new(), ProgramPlace::Workspace)?;
        let stdout = self.succeed(&arguments, output)?;
        let found = self
            .host
            .read_repository(&stdout)
            .map_err(|error| self.unreadable(&arguments, &error))?;
        *known = Some(found.clone());
        Ok(found)
    }

    fn start(
        &self,
        arguments: Arguments,
        stdin: Vec<u8>,
        place: ProgramPlace,
    ) -> Result<ProgramOutput, ForgeError> {
        let program = self.host.program();
        let request = ProgramRequest { program, arguments, stdin, place, max_output: MAX_OUTPUT };
        self.runner.run_program(&request).map_err(|error| ForgeError::from_io(self.host, &error))
    }

    /// Returns what a command printed, if it succeeded.
    fn succeed(&self, arguments: &[String], output: ProgramOutput) -> Result<Vec<u8>, ForgeError> {
        let (program, command) = (self.host.program(), name_command(arguments));
        if output.status != 0 {
            return Err(ForgeError::from_output(self.host, &command, &output));
        }
        if output.is_truncated {
            let problem = format!("more than {MAX_OUTPUT} bytes");
            return Err(ForgeError::Output { program, command, problem });
        }
        Ok(output.stdout)
    }

    fn unreadable(&self, arguments: &[String], error: &serde_json::Error) -> ForgeError {
        ForgeError::Output {
            program: self.host.program(),
            command: name_command(arguments),
            problem: error.to_string(),
        }
    }

    /// Runs a command about the repository, and returns what it printed.
    pub(crate) fn ask(&self, arguments: &Arguments, stdin: Vec<u8>) -> Result<Vec<u8>, ForgeError> {
        let mut whole = arguments.clone();
        // After the command and its subcommand.
        whole.insert(whole.len().min(2), format!("--repo={}", self.repository()?));
        let output = self.start(whole, stdin, ProgramPlace::Neutral)?;
        self.succeed(arguments, output)
    }

    /// Runs a command, and reads what it printed.
    pub(crate) fn read<T>(
        &self,
        arguments: &Arguments,
        read: impl FnOnce(&[u8]) -> serde_json::Result<T>,
    ) -> Result<T, ForgeError> {
        let stdout = self.ask(arguments, Vec::new())?;
        read(&stdout).map_err(|error| self.unreadable(arguments, &error))
    }

    /// Returns the open issues with a label, at most 1,000.
    pub(crate) fn list_issues(&self, label: &str) -> Result<Vec<PrintedIssue>, ForgeError> {
        let mut all = Vec::new();
        let mut page = 1;
        loop {
            let arguments = self.host.list_issues(label, page);
            let (issues, has_more) = self.read(&arguments, |text| self.host.read_issues(text))?;
            all.extend(issues);
            page += 1;
            if !has_more || all.len() >= MOST_ISSUES {
                all.truncate(MOST_ISSUES);
                return Ok(all);
            }
        }
    }

    /// Creates a label, unless it exists.
    pub(crate) fn create_label(
        &self,
        (name, color, description): (&str, &str, &str),
    ) -> Result<(), ForgeError> {
        match self.ask(&self.host.create_label(name, color, description), Vec::new()) {
            Err(ForgeError::Failed { message, .. }) if message.contains("already exists") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Adds and removes labels of an issue.
    pub(crate) fn edit_labels(
        &self,
        issue: u64,
        add: &[&str],
        remove: &[&str],
    ) -> Result<(), ForgeError> {
        self.ask(&self.host.edit_labels(issue, add, remove), Vec::new()).map(drop)
    }

    /// Comments on an issue, unless a comment with this marker is there.
    pub(crate) fn comment_once(
        &self,
        issue: u64,
        marker: &str,
        text: &str,
    ) -> Result<(), ForgeError> {
        let read = |text: &[u8]| self.host.read_comments(text);
        let comments = self.read(&self.host.list_comments(issue), read)?;
        if comments.iter().any(|comment| comment.contains(marker)) {
            return Ok(());
        }
        let (arguments, stdin) = self.host.comment(issue, &format!("{marker}\n{text}"));
        self.ask(&arguments, stdin).map(drop)
    }
}

/// Returns the command and its subcommand: the rest may be long, and of others.
fn name_command(arguments: &[String]) -> String {
    arguments.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ")
}
