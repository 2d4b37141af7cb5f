//! The one way to every git process: what is requested, what comes back, and who starts it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Starts `git` and waits until it has exited.
///
/// The orchestrator implements this with its supervisor, so that all processes have one owner.
/// [`SystemGit`](crate::SystemGit) is a plain implementation.
pub trait RunGit: Send + Sync {
    /// Runs `git` once, to its end.
    ///
    /// An implementation uses exactly the request's environment and nothing of its own, collects at
    /// most `max_output` bytes of standard output (it reads and drops the rest, and sets
    /// [`GitOutput::is_truncated`]), and ends the whole process tree when `timeout` has passed.
    ///
    /// # Errors
    ///
    /// Fails if `git` cannot be started, or with [`io::ErrorKind::TimedOut`] if it was ended after
    /// the timeout. A process that exits unsuccessfully is no error.
    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput>;

    /// Whether it confines the requests that ask for it. Then these do not reach the private folder, and nothing is
    /// signed in them.
    fn confines(&self) -> bool {
        false
    }
}

/// Describes one process of `git`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRequest {
    /// The arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// The folder in which it runs.
    pub directory: PathBuf,
    /// The complete environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// What it reads from standard input, which then ends.
    pub stdin: Vec<u8>,
    /// How many bytes of standard output are collected.
    pub max_output: usize,
    /// How long it may run.
    pub timeout: Duration,
    /// Of a command that runs programs which the repository names, such as hooks and filters: the folders that it has to
    /// write beside the workspace. Those programs run what an agent wrote, so they are to have no more rights than it.
    pub confined_to: Option<Vec<PathBuf>>,
}

/// What a process of `git` printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitOutput {
    /// How it ended.
    pub exit: GitExit,
    /// The collected standard output.
    pub stdout: Vec<u8>,
    /// Whether there was more standard output than was collected.
    pub is_truncated: bool,
    /// The start of standard error, at most [`MAX_STDERR`] bytes.
    pub stderr: Vec<u8>,
}

/// How many bytes of standard error an implementation of [`RunGit`] collects.
pub const MAX_STDERR: usize = 64 * 1024;

/// How a process of `git` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitExit {
    /// It exited with this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

impl std::fmt::Display for GitExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}
