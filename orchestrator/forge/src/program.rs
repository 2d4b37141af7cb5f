//! The one way to every process of `gh` and `glab`.

use std::io;

/// Starts the program of a code host and waits until it has exited.
pub trait RunHostProgram: Send + Sync {
    /// Runs the program once, to its end, with the user's own environment: it has to find the user's login.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it is not installed, [`io::ErrorKind::TimedOut`] if it did not exit in time. A
    /// process that exits unsuccessfully is no error.
    fn run_program(&self, request: &ProgramRequest) -> io::Result<ProgramOutput>;
}

/// Describes one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRequest {
    /// The program's name, to be found in `PATH` where no agent can write.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it reads from standard input, which then ends.
    pub stdin: Vec<u8>,
    /// Where it runs.
    pub place: ProgramPlace,
    /// How many bytes of standard output are collected.
    pub max_output: usize,
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramPlace {
    /// Where no file has a say in what it does: agents write the workspace.
    Neutral,
    /// In the workspace, to find its repository.
    Workspace,
}

/// What a process printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Its exit status; that of a shell if a signal ended it.
    pub status: i32,
    /// The collected standard output.
    pub stdout: Vec<u8>,
    /// Whether there was more standard output than was collected.
    pub is_truncated: bool,
    /// The start of standard error.
    pub stderr: Vec<u8>,
}
