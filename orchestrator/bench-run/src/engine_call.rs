//! A call of the program of an engine, of containers or of a cluster, within bounds.

use std::time::Duration;

use ralph_orchestrator_supervisor::{CaptureLimit, Ending, Spec, Supervisor};

/// What is kept of what it prints, in bytes.
const OUTPUT: CaptureLimit = CaptureLimit { head: 1 << 20, tail: 64 << 10 };
/// The last lines of a command that failed, in its message.
const LAST_LINES: usize = 20;

/// An engine did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// It failed.
    #[error("`{command}` failed: {status}{output}")]
    Failed { command: String, status: String, output: String },
    /// It did not end.
    #[error("`{command}` did not end within {seconds} s and was killed")]
    TimedOut { command: String, seconds: u64 },
    /// It did not start.
    #[error("`{command}`: {reason}")]
    NotStarted { command: String, reason: String },
    /// What it printed cannot be read.
    #[error("`{command}` printed something else than expected: {reason}")]
    Answer { command: String, reason: String },
}

/// Runs a program to its end. Returns what it printed on standard output. `command` is its name in messages.
///
/// # Errors
/// It cannot be started, fails, or does not end in time.
pub(crate) async fn call_engine(
    supervisor: &Supervisor,
    spec: Spec,
    command: String,
    timeout: Duration,
) -> Result<String, EngineError> {
    let stop = tokio::time::sleep(timeout);
    let output = match supervisor.output(spec, OUTPUT, stop).await {
        Ok(output) => output,
        Err(error) => return Err(EngineError::NotStarted { command, reason: error.to_string() }),
    };
    if output.stopped {
        return Err(EngineError::TimedOut { command, seconds: timeout.as_secs() });
    }
    if output.exit.ending == Ending::Exited(0) {
        return Ok(output.stdout.text());
    }
    let printed = [output.stdout.text(), output.stderr.text()].concat();
    let status = output.exit.ending.to_string();
    Err(EngineError::Failed { command, status, output: last_lines(&printed) })
}

/// Returns the last lines of what was printed, after a line break; nothing of nothing.
fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    if last.is_empty() { String::new() } else { format!("\n{}", last.join("\n")) }
}
