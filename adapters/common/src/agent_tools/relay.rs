//! What the agent starts: passes the lines of its standard input to the server of its iteration, and the answers back.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use serde::{Deserialize, Serialize};

/// The command of the orchestrator that is this relay.
pub const RELAY_COMMAND: &str = "mcp";

/// Returns the program of the relay and its arguments, for the tools that this file describes.
#[must_use]
pub fn relay_command(file: &Path) -> (PathBuf, [String; 2]) {
    let program = std::env::current_exe().unwrap_or_else(|_| "ralph-orchestrator".into());
    (program, [RELAY_COMMAND.to_owned(), file.display().to_string()])
}

/// Where the server of an iteration listens, and what it wants to hear first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) socket: PathBuf,
    pub(super) token: String,
    /// The relay's program and its arguments, for those who only have the file.
    pub(super) command: Vec<String>,
}

/// The tools cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The file with the address cannot be read.
    #[error("{path}: {error}; it is there only while its iteration runs")]
    Address {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Nobody listens.
    #[error("the orchestrator does not answer at {socket}: {error}")]
    Connection {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// Passes lines between this process's standard input and output and the server whose address is in the file, until one
/// of them ends.
///
/// # Errors
/// The server cannot be reached, or does not listen any more.
pub fn relay(file: &Path) -> Result<(), RelayError> {
    let unreadable = |error: io::Error| RelayError::Address { path: file.to_owned(), error };
    let bytes = fs::read(file).map_err(unreadable)?;
    let address: Address =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.into()))?;
    let broken =
        |error: io::Error| RelayError::Connection { socket: address.socket.clone(), error };
    let mut server = UnixStream::connect(&address.socket).map_err(broken)?;
    server.write_all(format!("{}\n", address.token).as_bytes()).map_err(broken)?;
    let mut answers = server.try_clone().map_err(broken)?;
    // The process ends with the answers, whatever the agent still has to say.
    thread::spawn(move || {
        let ended = pass_on(&mut io::stdin().lock(), &mut server);
        drop(server.shutdown(Shutdown::Write));
        ended
    });
    pass_on(&mut answers, &mut io::stdout().lock()).map_err(broken)
}

/// Passes on what comes, as soon as it comes. `io::copy` has the system move bytes between pipes and sockets, which may
/// keep them until there are more.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..length).unwrap_or_default())?;
        to.flush()?;
    }
}
