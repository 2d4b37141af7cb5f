//! `run --detach`: a run in a session of its own, which no terminal ends.
//!
//! The command that was typed starts this program again, with the same arguments and a socket as
//! standard input, and waits. The second process leads a session of its own from its first moment on.
//! It still prints where it was detached, so that whatever keeps a run from beginning is read there.
//! Once the run can begin it reports that on the socket and detaches from the terminal: its output then goes to a
//! bounded file in the run's state. If the socket closes without a report, the command exits with the status of
//! the second process.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use ralph_orchestrator_assembly::context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_engine::Session;
use ralph_orchestrator_store::{Layout, RunReader};
use ralph_orchestrator_supervisor::start_in_background;
use ralph_orchestrator_terminal::bounded_file::BoundedFile;
use ralph_orchestrator_terminal::{output, writer};
use serde::{Deserialize, Serialize};

/// The hidden argument of the second process.
const FLAG: &str = "--detached";
/// Longer than what it says.
const LONGEST: u64 = 64 * 1024;
/// How long it is waited for the run to be shown, and how often this is checked.
const SHOWN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
const NAME: &str = "output.log";
const FULL_NAME: &str = "output.1.log";

/// The report of the second process that the run can begin.
#[derive(Debug, Serialize, Deserialize)]
struct DetachedRun {
    run: String,
    pid: u32,
    state_dir: PathBuf,
    output: PathBuf,
}

/// Starts the run in the background, and waits until it has begun or could not.
pub(crate) fn launch(file: &ConfigFile, json: bool) -> Result<u8, CommandError> {
    let (mut child, socket) = start_in_background(FLAG)?;
    let mut line = String::new();
    BufReader::new(socket.take(LONGEST)).read_line(&mut line)?;
    let Ok(detached) = serde_json::from_str::<DetachedRun>(&line) else {
        let status = child.wait()?;
        let code = status.code().or_else(|| Some(128_i32.saturating_add(status.signal()?)));
        return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::INTERNAL));
    };
    wait_until_shown(&detached, &mut child);
    if json {
        output::json(&detached);
        return Ok(exit::OK);
    }
    let program = context::invocation(file);
    output::result(&format!("run {} is in the background (pid {})", detached.run, detached.pid));
    output::result(&format!("  follow  {program} log --follow"));
    output::result(&format!("  status  {program} status"));
    output::result(&format!("  stop    {program} stop"));
    output::result(&format!("  output  {}", detached.output.display()));
    Ok(exit::OK)
}

/// Waits until other commands show the run that was started, and not the one before it, or for 5 s: then the workspace is
/// large, and is still being read.
fn wait_until_shown(detached: &DetachedRun, child: &mut Child) {
    let mut reader = RunReader::new(&Layout::new(detached.state_dir.clone()));
    let until = Instant::now() + SHOWN;
    // Ids of runs are in the order of their beginnings: the next item of a backlog may have begun.
    while Instant::now() < until
        && !matches!(reader.read(|_| {}), Ok(Some(run)) if run >= detached.run.as_str())
        && matches!(child.try_wait(), Ok(None))
    {
        std::thread::sleep(POLL);
    }
}

/// Makes this, the second process, lead a session of its own.
pub(crate) fn lead_session() -> Result<(), CommandError> {
    rustix::process::setsid().map_err(io::Error::from)?;
    Ok(())
}

/// Reports to the waiting process that the run can begin, and detaches from the terminal. Returns whether the
/// other process was still waiting.
pub(crate) fn detach_from_terminal(session: &Session) -> Result<bool, CommandError> {
    let layout = session.layout();
    let output = layout.run(session.run_id()).join(NAME);
    let log = BoundedFile::open(&output, FULL_NAME).map_err(|error| {
        CommandError::internal(format!("cannot open {}: {error}", output.display()))
    })?;
    let detached = DetachedRun {
        run: session.run_id().to_owned(),
        pid: std::process::id(),
        state_dir: layout.root().to_owned(),
        output,
    };
    let mut line = serde_json::to_vec(&detached).map_err(CommandError::internal)?;
    line.push(b'\n');
    if send(&line).is_err() {
        return Ok(false);
    }
    // What was said so far is for whoever detached it.
    output::finish();
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
    writer::divert(log)?;
    Ok(true)
}

/// Writes to standard input, which is a socket here.
fn send(mut bytes: &[u8]) -> Result<(), rustix::io::Errno> {
    while !bytes.is_empty() {
        let sent =
            rustix::net::send(rustix::stdio::stdin(), bytes, rustix::net::SendFlags::NOSIGNAL)?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}
