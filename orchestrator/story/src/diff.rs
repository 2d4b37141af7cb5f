//! The differences between the checkpoints of two iterations.

use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_git::{
    CheckpointName, Diff, DiffEnd, GitError, RepoPath, Repository, RunRef,
};
use serde_json::{Value, json};

/// Two iterations cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The start of the run was to be compared with what was before it.
    #[error("iteration 0 is the start of the run: nothing is before it")]
    BeforeStart,
    /// No iteration has a checkpoint.
    #[error("this run has no checkpoint of an iteration")]
    NoCheckpoint,
    /// The repository cannot compare them.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The repository of a stored run, with what the run recorded of it.
pub struct StoredRepository {
    /// The repository.
    pub repository: Repository,
    /// The run whose checkpoints it has.
    pub run: RunRef,
    /// Removes the run's secrets from what is shown of the checkpoints, which have them where the work has.
    pub redactor: Redactor,
}

impl StoredRepository {
    /// Returns a path as it is shown: a file's name can be made of a secret.
    #[must_use]
    pub fn mask_path(&self, path: &RepoPath) -> RepoPath {
        RepoPath::from_bytes(self.redactor.bytes(path.as_bytes()))
    }
}

/// Returns the differences of two iterations as `diff --json` prints them.
pub fn object(diff: &Diff, (from, to): (u64, u64), has_patch: bool) -> Value {
    json!({
        "from": from,
        "to": to,
        "files": diff.files,
        "patch": has_patch.then(|| String::from_utf8_lossy(&diff.patch)),
        "patch_truncated": diff.is_patch_truncated && has_patch,
    })
}

/// Compares two checkpoints, with at most this many bytes of the patch, and without the run's secrets. Blocks.
///
/// # Errors
/// There are no such checkpoints, or git cannot compare them.
pub fn compare(
    stored: &StoredRepository,
    iterations: &[u64],
    longest_patch: usize,
) -> Result<(u64, u64, Diff), DiffError> {
    let StoredRepository { repository, run, redactor } = stored;
    let (from, to) = match iterations {
        [] => {
            let last = last_iteration(stored, run)?;
            (last.saturating_sub(1), last)
        }
        [0] => {
            return Err(DiffError::BeforeStart);
        }
        [one] => (one.saturating_sub(1), *one),
        [from, to, ..] => (*from, *to),
    };
    let end = |iteration| {
        let found = repository.find_checkpoint(run, CheckpointName::Iteration(iteration));
        found.map(|found| DiffEnd::Tree(found.tree)).map_err(DiffError::from)
    };
    // Of a number alone, that one is named if there is none.
    let (after, before) = (end(to)?, end(from)?);
    let mut diff = repository.diff(&before, &after, longest_patch)?;
    diff.patch = redactor.bytes(&diff.patch).into_owned();
    for file in &mut diff.files {
        file.path = stored.mask_path(&file.path);
    }
    Ok((from, to, diff))
}

fn last_iteration(stored: &StoredRepository, run: &RunRef) -> Result<u64, DiffError> {
    let all = stored.repository.list_checkpoints(run)?;
    let iterations = all.iter().filter_map(|checkpoint| match checkpoint.name {
        CheckpointName::Iteration(number) if number > 0 => Some(number),
        _ => None,
    });
    iterations.max().ok_or(DiffError::NoCheckpoint)
}
