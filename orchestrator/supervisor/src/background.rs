//! The orchestrator itself once more, in the background: the one process that is not below a shim, because
//! it is to outlive whoever started it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Starts this program once more with `flag` before its own arguments. Returns the process, and a socket
/// whose other end is its standard input; what it prints goes where this program's own output goes.
///
/// # Errors
/// The system refuses.
#[allow(clippy::disallowed_methods)] // This crate is the place that spawns.
pub fn start_in_background(flag: &str) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from("ralph-orchestrator"));
    // Whatever has become of the file that this program was started from.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).arg(flag).args(arguments).stdin(OwnedFd::from(theirs));
    // The other end is the child's alone once the command is dropped.
    Ok((command.spawn()?, ours))
}
