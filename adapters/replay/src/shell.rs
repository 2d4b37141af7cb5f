//! The Bash tool: runs the recorded commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_contract::{BuildContext, Leftovers};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_supervisor::{
    Ending, Exit, Grace, Process, ProcessEvent, Spec, Stop, Supervisor, find_program,
};
use tokio::time::{Instant, sleep_until};

use crate::cancellation::Cancellation;

/// How much of a command's output goes into its result, in bytes.
const OUTPUT_MAX: usize = 30_000;
/// Longer than any path, in bytes.
const LONGEST_PATH: usize = 64 * 1024;
/// How long a command may take if the recorded call does not say.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long a command may take at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Runs the command, then tells in which folder it ended; the next command starts there. Standard error
/// shares one pipe with standard output, so that what was printed keeps its order.
const SCRIPT: &str = r#"exec 2>&1; eval "$1"; status=$?; pwd -P > "$2"; exit "$status""#;

/// A shell as the recorded agent had it: each command is a process of its own, but the folder stays.
pub(crate) struct Shell {
    program: Result<PathBuf, String>,
    supervisor: Supervisor,
}

/// Where the commands of one iteration run.
pub(crate) struct ShellState {
    /// Outside of it no command starts.
    pub(crate) workspace: PathBuf,
    /// Where the last command ended.
    pub(crate) cwd: PathBuf,
    /// Complete.
    pub(crate) env: BTreeMap<String, String>,
    /// Where the shell writes the folder it ended in.
    pub(crate) cwd_file: PathBuf,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    /// Its output, and its exit status unless that is 0.
    pub(crate) text: String,
    /// It failed.
    pub(crate) is_error: bool,
    /// Processes that it left behind.
    pub(crate) leftovers: Leftovers,
}

/// Why a command ended before its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlyEnd {
    Cancelled,
    TimedOut,
}

impl Shell {
    /// Looks for `bash`, or else `sh`.
    pub(crate) fn new(context: &BuildContext, supervisor: &Supervisor) -> Self {
        let find = |name| find_program(name, &context.path, &context.config_dir);
        let program = find("bash").or_else(|_| find("sh"));
        let program = program
            .map_err(|error| format!("{error}: a recorded session needs a shell for its commands"));
        Self { program, supervisor: supervisor.clone() }
    }

    /// Returns the shell's path, or why there is none.
    pub(crate) fn program(&self) -> Result<&Path, &str> {
        self.program.as_deref().map_err(String::as_str)
    }

    /// Runs a command; when this returns, all of its processes are gone. Nothing is returned if the
    /// orchestrator asked for the end, except what was left of its processes.
    pub(crate) async fn run(
        &self,
        command: &str,
        timeout_ms: Option<u64>,
        state: &mut ShellState,
        cancel: &mut Cancellation<'_>,
    ) -> Result<CommandResult, Leftovers> {
        let failed =
            |text: String| CommandResult { text, is_error: true, leftovers: Leftovers::default() };
        let program = match self.program() {
            Ok(program) => program.to_owned(),
            Err(message) => return Ok(failed(message.to_owned())),
        };
        let name = program.file_name().unwrap_or_default().to_owned();
        let args = vec![
            "-c".into(),
            SCRIPT.into(),
            name,
            command.into(),
            state.cwd_file.clone().into_os_string(),
        ];
        let (cwd, env) = (state.cwd.clone(), state.env.clone());
        let spec = Spec { program, args, cwd, env, stdin: Vec::new(), grace: Grace::default() };
        let process = match self.supervisor.spawn(spec).await {
            Ok(process) => process,
            Err(error) => return Ok(failed(format!("cannot start the command: {error}"))),
        };
        let timeout = timeout_ms.map_or(TIMEOUT, Duration::from_millis).min(TIMEOUT_MAX);
        let (output, exit, cut) = watch(process, timeout, cancel).await;
        if cut == Some(EarlyEnd::Cancelled) {
            return Err(Leftovers::new(exit.left_behind, exit.survived));
        }
        let note = state.follow_cwd();
        Ok(result(&output, exit, cut.map(|_| timeout), note))
    }
}

async fn watch(
    mut process: Process,
    timeout: Duration,
    cancel: &mut Cancellation<'_>,
) -> (Output, Exit, Option<EarlyEnd>) {
    let deadline = Instant::now() + timeout;
    let mut output = Output::default();
    let mut cut = None;
    let exit = loop {
        let running = cut.is_none();
        let why = tokio::select! {
            biased;
            () = cancel.wait(), if running => EarlyEnd::Cancelled,
            () = sleep_until(deadline), if running => EarlyEnd::TimedOut,
            step = process.next_event() => match step {
                ProcessEvent::Output(chunk) => {
                    output.push(&chunk.bytes);
                    continue;
                }
                ProcessEvent::Exited(exit) => break exit,
            },
        };
        cut = Some(why);
        process.stop(Stop::Gracefully);
    };
    (output, exit, cut)
}

fn result(
    output: &Output,
    exit: Exit,
    timed_out: Option<Duration>,
    note: Option<String>,
) -> CommandResult {
    let status = match (timed_out, exit.ending) {
        (Some(limit), _) => Some(format!("Command timed out after {} ms", limit.as_millis())),
        (None, Ending::Exited(0)) => None,
        (None, Ending::Exited(code)) => Some(format!("Exit code {code}")),
        (None, ending @ (Ending::Signaled { .. } | Ending::Lost)) => {
            Some(format!("Command ended by {ending}"))
        }
    };
    let is_error = status.is_some();
    let parts = [status, output.text(), note];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n");
    CommandResult { text, is_error, leftovers: Leftovers::new(exit.left_behind, exit.survived) }
}

impl ShellState {
    /// Changes to the folder where the last command ended, if that is inside the workspace; else back to its
    /// root.
    fn follow_cwd(&mut self) -> Option<String> {
        let written = read_file(&self.cwd_file, LONGEST_PATH, SymlinkPolicy::Refuse).ok()?;
        // A command that ends its shell writes nothing; the old file must not stand for it.
        let _ = fs::remove_file(&self.cwd_file);
        let folder = PathBuf::from(OsString::from_vec(written.strip_suffix(b"\n")?.to_vec()));
        if folder.starts_with(&self.workspace) {
            self.cwd = folder;
            None
        } else {
            self.cwd.clone_from(&self.workspace);
            Some(format!("Shell cwd was reset to {}", self.workspace.display()))
        }
    }
}

/// The beginning of what a command printed.
#[derive(Debug, Default)]
struct Output {
    head: Vec<u8>,
    cut: usize,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        let room = OUTPUT_MAX.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or_default());
        self.cut = self.cut.saturating_add(bytes.len() - room);
    }

    fn text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.head);
        let text = text.trim_end_matches('\n');
        match (self.cut, text.is_empty()) {
            (0, true) => None,
            (0, false) => Some(text.to_owned()),
            (cut, _) => Some(format!("{text}\n[… {cut} bytes cut]")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded_and_says_what_was_cut() {
        let mut output = Output::default();
        assert_eq!(output.text(), None);
        for _ in 0..31 {
            output.push(&[b'x'; 1000]);
        }
        let text = output.text().unwrap();
        assert!(text.ends_with("x\n[… 1000 bytes cut]"), "{}", text.len());
    }
}
