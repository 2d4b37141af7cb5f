//! Explains what is wrong with the folder of a job.

use std::path::Path;

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::job::{JobError, LOCK_FILE};
use ralph_orchestrator_bench_run::error::job_error;

/// Jobs that a message names.
const MOST_JOBS: usize = 10;

/// Returns an error with what to do about it.
pub(super) fn explain(error: JobError, folder: &Path) -> CommandError {
    let hint = match &error {
        JobError::Exists { .. } => Some(format!(
            "`ralph-orchestrator bench resume {}` performs what is left of it",
            folder.display()
        )),
        JobError::NoLock { .. } => {
            Some(format!("`bench run` writes one into the folder of each job, as {LOCK_FILE}"))
        }
        JobError::NoJob { .. } => Some(match find_jobs(folder).as_slice() {
            [] => "`ralph-orchestrator bench run` begins one".to_owned(),
            jobs => format!("name one of the jobs in it: {}", jobs.join(", ")),
        }),
        JobError::Busy { .. } => Some(format!(
            "`ralph-orchestrator bench status {0}` shows how far it is, `bench work {0}` joins in",
            folder.display()
        )),
        JobError::Damaged { path, .. } if path.starts_with(folder.join("claims")) => Some(
            "move it away; the attempt that it is of is then taken for lost, and performed again"
                .to_owned(),
        ),
        JobError::Io { .. } | JobError::Damaged { .. } | JobError::Format { .. } => None,
    };
    let error = job_error(error);
    match hint {
        Some(hint) => error.hinted(hint),
        None => error,
    }
}

/// Returns the paths of the jobs in a folder, the latest names last, [`MOST_JOBS`] at most.
fn find_jobs(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).filter(|path| path.join(LOCK_FILE).is_file());
    let mut jobs: Vec<String> = found.map(|path| path.display().to_string()).collect();
    jobs.sort();
    jobs.split_off(jobs.len().saturating_sub(MOST_JOBS))
}
