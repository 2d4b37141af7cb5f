//! Errors about jobs, for people.

use ralph_orchestrator_assembly::error::{CommandError, ErrorKind};
use ralph_orchestrator_bench::job::JobError;

/// Returns the error of a command about a job.
pub fn job_error(error: JobError) -> CommandError {
    let kind = match &error {
        JobError::Busy { .. } => ErrorKind::Busy,
        JobError::Damaged { .. } => ErrorKind::Damaged,
        JobError::NoLock { .. } | JobError::NoJob { .. } | JobError::Exists { .. } => {
            ErrorKind::Usage
        }
        JobError::Format { .. } => ErrorKind::Config,
        JobError::Io { .. } => ErrorKind::Internal,
    };
    CommandError::new(kind, error)
}
