//! The other end of the carrier `process`: one library in a process of its own, which speaks lines.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plugin_abi::{MAX_FRAME, status};
use rustix::io::fcntl_dupfd_cloexec;

use crate::copy::PrivateCopy;
use crate::error::LibraryError;
use crate::library::{self, Session, Sink};

/// How long the threads of a plugin may take to end.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// The first number for a file descriptor that is moved away: above those that shells use.
const MOVED: i32 = 10;

/// Why a library cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It is not loaded.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The standard streams cannot be moved.
    #[error("the standard streams of the plugin's process cannot be set up: {0}")]
    Streams(#[source] io::Error),
    /// It does not work.
    #[error("the plugin {}: {why}", name.as_str())]
    Failed {
        /// The plugin.
        name: String,
        /// Why not.
        why: String,
    },
}

/// What `ralph-orchestrator plugin-host LIBRARY` does: loads the private copy at `path`, hands it the
/// lines of standard input as frames, and writes its frames to standard output as lines. Returns only
/// if that fails; when standard input ends, the session is closed, and so is the process.
///
/// The plugin itself gets neither stream. It and its children see an empty standard input, and what
/// they print to standard output goes to standard error.
pub fn serve(path: &Path) -> ServeError {
    match streams() {
        Ok((input, output)) => match talk(path, input, output) {
            Ok(()) => library::leave(0),
            Err(error) => error,
        },
        Err(error) => ServeError::Streams(error),
    }
}

/// The standard streams, where nobody else finds them: neither a stray print nor a child of the plugin.
fn streams() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = fcntl_dupfd_cloexec(io::stdin(), MOVED)?;
    let output = fcntl_dupfd_cloexec(io::stdout(), MOVED)?;
    let nothing = OpenOptions::new().read(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing.as_fd())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input, output))
}

fn talk(path: &Path, input: OwnedFd, output: OwnedFd) -> Result<(), ServeError> {
    let loaded = library::load_verified(&PrivateCopy::at(path)?)?;
    let failed = |why| ServeError::Failed { name: loaded.manifest().name.clone(), why };
    let mut session =
        Session::open(&loaded, sink(output)).map_err(|failure| failed(failure.to_string()))?;
    let mut lines = BufReader::with_capacity(64 * 1024, File::from(input));
    let mut line = Vec::new();
    while next(&mut lines, &mut line).map_err(|error| failed(error.to_string()))? {
        session.send(&line).map_err(|failure| failed(failure.to_string()))?;
    }
    // Whether its threads ended or not: the process does now.
    let _ = session.close(CLOSE_WITHIN);
    Ok(())
}

/// The next line without its end; false when there is none.
fn next(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let most = u64::try_from(MAX_FRAME).unwrap_or(u64::MAX).saturating_add(1);
    from.by_ref().take(most).read_until(b'\n', line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(true);
    }
    if line.len() > MAX_FRAME {
        let message = format!("a frame of the host is longer than {MAX_FRAME} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // What has no end was cut off with the host.
    Ok(false)
}

/// Writes each frame as a line. The pipe is the backpressure.
fn sink(output: OwnedFd) -> Sink {
    let output = Mutex::new(File::from(output));
    Box::new(move |frame, _| {
        // One that is too long is passed on all the same: the host says so, and ends this process.
        let mut line = Vec::with_capacity(frame.len() + 1);
        line.extend_from_slice(frame);
        line.push(b'\n');
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        match output.write_all(&line) {
            Ok(()) => status::OK,
            Err(_) => status::CLOSED,
        }
    })
}
