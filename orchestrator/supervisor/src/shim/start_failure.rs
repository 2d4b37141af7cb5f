//! Why a leader was not started.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::file_fault::FileFault;
use crate::step::StepSubject;
use crate::wire::Report;

/// Why a leader was not started.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StartFailure {
    /// The program could not be executed, or no process be made for it.
    Errno(i32),
    /// The program could not be executed, for a reason that only shows where the leader is.
    Program { fault: FileFault, errno: i32 },
    /// It could not be confined.
    Sandbox(String),
    /// A step before that failed.
    Step { step: String, subject: StepSubject, errno: i32 },
}

impl StartFailure {
    /// Converts it to what the orchestrator is sent.
    pub(super) fn into_report(self) -> Report {
        match self {
            Self::Errno(errno) => Report::SpawnFailed { errno },
            Self::Program { fault, errno } => Report::ProgramFailed { fault, errno },
            Self::Sandbox(reason) => Report::SandboxFailed { reason },
            Self::Step { step, subject, errno } => Report::SetUpFailed { step, subject, errno },
        }
    }
}

impl From<io::Error> for StartFailure {
    fn from(error: io::Error) -> Self {
        // Every failure of fork and exec has an errno.
        Self::Errno(error.raw_os_error().unwrap_or(libc::EINVAL))
    }
}

impl From<Errno> for StartFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno.raw_os_error())
    }
}

/// Adds to an error what was done.
pub(super) trait Step<T> {
    fn step(self, subject: StepSubject, step: impl FnOnce() -> String) -> Result<T, StartFailure>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, subject: StepSubject, step: impl FnOnce() -> String) -> Result<T, StartFailure> {
        self.map_err(|error| {
            let errno = error.into().raw_os_error().unwrap_or(libc::EINVAL);
            StartFailure::Step { step: step(), subject, errno }
        })
    }
}
