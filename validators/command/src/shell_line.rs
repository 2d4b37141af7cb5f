//! A line that is given to a shell: whether the shell can read it, and whether its first program exists.
//!
//! Both would look like a rejection of the agent's work, or like a check that fails before any work as it
//! should. So they are found out before a run, by the shell itself, which runs nothing of the line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ralph_orchestrator_contract::{Setup, SetupProblem};
use ralph_orchestrator_supervisor::{CaptureLimit, Grace, Output, Spec, Supervisor};
use ralph_orchestrator_text::escape;

use crate::display::typed;
use crate::program::{Lookup, Program};
use crate::setup::{key, similar};
use crate::shell_option::find;

/// Bytes of what a shell prints that are shown.
const MOST_PRINTED: usize = 400;
/// How long a shell may take to read a line.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The shell of a command, and its line.
struct ShellLine<'a> {
    command: &'a [String],
    /// Where the line is in the command.
    index: usize,
    shell: PathBuf,
    setup: Setup<'a>,
}

/// Returns what is wrong with the line of a command that gives one to a shell.
pub(crate) async fn find_problem(
    command: &[String],
    program: &Program,
    lookup: &Lookup,
    setup: Setup<'_>,
    supervisor: &Supervisor,
) -> Option<SetupProblem> {
    let index = find(command)?;
    let line = command.get(index)?;
    let Program::Pinned(Ok(shell)) = program else { return None };
    let shell = ShellLine { command, index, shell: shell.clone(), setup };
    let problem = |message| SetupProblem { key: key(index), message, is_fatal: true };
    if let Some(message) = shell.syntax_error(supervisor).await {
        return Some(problem(message));
    }
    let name = first_program(line)?;
    if !shell.is_unknown(name, supervisor).await {
        return None;
    }
    let similar = similar(name, &lookup.path).map(|name| format!("; did you mean `{name}`?"));
    Some(problem(format!(
        "`{name}`, the first program of `{}`, was not found in PATH{}",
        typed(command),
        similar.unwrap_or_else(|| "; install it, or correct the line".to_owned())
    )))
}

impl ShellLine<'_> {
    /// Returns what the shell says of a line that it cannot read.
    async fn syntax_error(&self, supervisor: &Supervisor) -> Option<String> {
        let words = self.command.get(1..=self.index)?.iter().cloned();
        let args = std::iter::once("-n".to_owned()).chain(words).collect();
        let output = self.run(args, supervisor).await?;
        if output.exit.ending.code()? == 0 {
            return None;
        }
        let said = String::from_utf8_lossy(&output.stderr.head).into_owned();
        Some(format!(
            "the shell cannot read the line of `{}`: {}; correct it",
            typed(self.command),
            escape(said.trim()).replace('\n', "; ")
        ))
    }

    /// Returns whether the shell knows neither a command of its own nor a program of this name.
    async fn is_unknown(&self, name: &str, supervisor: &Supervisor) -> bool {
        let args = ["-c", "command -v \"$1\" > /dev/null 2>&1", "sh", name].map(str::to_owned);
        let output = self.run(args.to_vec(), supervisor).await;
        output.and_then(|output| output.exit.ending.code()).is_some_and(|code| code != 0)
    }

    /// Runs the shell. What keeps it from running is reported by others.
    async fn run(&self, args: Vec<String>, supervisor: &Supervisor) -> Option<Output> {
        let workspace = self.setup.workspace;
        let cwd = if workspace.is_dir() { workspace.to_owned() } else { PathBuf::from("/") };
        let spec = Spec {
            program: self.shell.clone(),
            args: args.into_iter().map(OsString::from).collect(),
            cwd,
            env: self.setup.env.clone(),
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let limit = CaptureLimit { head: MOST_PRINTED, tail: 0 };
        let output = supervisor.output(spec, limit, tokio::time::sleep(TIMEOUT)).await.ok()?;
        (!output.stopped).then_some(output)
    }
}

/// Returns the name of the program that a line begins with, if it is plainly one: no path, which the agent may
/// have to make first, and nothing that the shell replaces.
fn first_program(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.');
    let end = line.find(|c| !is_letter(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let ends_word =
        rest.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '&' | '|'));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    // A function may follow its name after a space.
    let is_function = rest.trim_start().starts_with("()");
    (ends_word && is_name && !is_function).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn finds_the_line_of_a_shell() {
        for (command, index) in [
            (&["sh", "-c", "a"][..], Some(2)),
            (&["/bin/bash", "-eu", "-o", "pipefail", "-c", "a", "b"], Some(5)),
            (&["bash", "-ec", "a"], Some(2)),
            (&["sh", "-c"], None),
            (&["sh", "./a.sh", "-c", "x"], None),
            (&["python3", "-c", "a"], None),
            (&[], None),
        ] {
            assert_eq!(find(&words(command)), index, "{command:?}");
        }
    }

    #[test]
    fn finds_only_names_that_are_plainly_programs() {
        for (line, name) in [
            (" cargo test", Some("cargo")),
            ("true", Some("true")),
            ("pytest;x", Some("pytest")),
            ("python3.12 -c x", Some("python3.12")),
            ("./a && b", None),
            ("A=1 make", None),
            ("\"a b\" c", None),
            ("$X a", None),
            ("f() { a; }; f", None),
            ("f () { a; }; f", None),
            ("[ -e x ]", None),
            ("! grep a", None),
            ("", None),
        ] {
            assert_eq!(first_program(line), name, "{line:?}");
        }
    }
}
