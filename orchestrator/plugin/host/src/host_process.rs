//! The host process: runs one library and exchanges frames as lines over its standard streams.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_plugin_abi::{MAX_FRAME, status};
use rustix::io::fcntl_dupfd_cloexec;

use crate::call_watch::{CallWatch, FrameOutput};
use crate::error::LibraryError;
use crate::library::{self, FrameSink, LibrarySession};
use crate::library_cache::PrivateCopy;

/// The time that the threads of a plugin have to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The lowest number for moved file descriptors: above those that shells use.
const MIN_MOVED_FD: i32 = 10;

/// Why the host process failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostProcessError {
    /// The library cannot be loaded.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The standard streams cannot be set up.
    #[error("the standard streams of the plugin's process cannot be set up: {0}")]
    Streams(#[source] io::Error),
    /// The plugin failed.
    #[error("the plugin {}: {why}", name.as_str())]
    Failed {
        /// The plugin's name.
        name: String,
        /// The cause.
        why: String,
    },
}

/// Runs `ralph-orchestrator plugin-host LIBRARY`: loads the private copy at `path`, sends it the lines of
/// standard input as frames, and writes its frames to standard output as lines. When standard input ends,
/// it closes the session and exits. Returns only on failure.
///
/// The plugin and its children see an empty standard input, and their standard output is redirected to
/// standard error.
pub fn run_host_process(path: &Path) -> HostProcessError {
    match take_streams() {
        Ok((input, output)) => match run_session(path, input, output) {
            Ok(()) => library::exit_now(0),
            Err(error) => error,
        },
        Err(error) => HostProcessError::Streams(error),
    }
}

/// Moves the standard streams away from the plugin's own prints and from its children.
fn take_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = fcntl_dupfd_cloexec(io::stdin(), MIN_MOVED_FD)?;
    let output = fcntl_dupfd_cloexec(io::stdout(), MIN_MOVED_FD)?;
    let nothing = OpenOptions::new().read(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing.as_fd())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input, output))
}

fn run_session(path: &Path, input: OwnedFd, output: OwnedFd) -> Result<(), HostProcessError> {
    let loaded = library::load(&PrivateCopy::open(path)?)?;
    let failed = |why| HostProcessError::Failed { name: loaded.manifest().name.clone(), why };
    let output = Arc::new(FrameOutput::new(File::from(output)));
    let watch = CallWatch::start(Arc::clone(&output));
    let mut session = LibrarySession::open(&loaded, frame_sink(output))
        .map_err(|error| failed(error.to_string()))?;
    let mut lines = BufReader::with_capacity(64 * 1024, File::from(input));
    let mut line = Vec::new();
    while read_line(&mut lines, &mut line).map_err(|error| failed(error.to_string()))? {
        watch.sending(|| session.send(&line)).map_err(|error| failed(error.to_string()))?;
    }
    // The process exits even if threads of the plugin still run.
    let _ = watch.closing(|| session.close(CLOSE_TIMEOUT));
    Ok(())
}

/// Reads the next line without its end. Returns false at the end of input.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let most = u64::try_from(MAX_FRAME).unwrap_or(u64::MAX).saturating_add(1);
    from.by_ref().take(most).read_until(b'\n', line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(true);
    }
    if line.len() > MAX_FRAME {
        let message = format!("the host sent a frame of more than {MAX_FRAME} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // A line without an end was truncated when the host exited.
    Ok(false)
}

/// Returns a sink that writes each frame as a line. The pipe is the backpressure.
fn frame_sink(output: Arc<FrameOutput>) -> FrameSink {
    Box::new(move |frame| {
        // The host reports a frame that is too long, and ends this process.
        let mut line = Vec::with_capacity(frame.len() + 1);
        line.extend_from_slice(frame);
        line.push(b'\n');
        match output.write(&line) {
            Ok(()) => status::OK,
            Err(_) => status::CLOSED,
        }
    })
}
