//! The differences between the checkpoints of two iterations.

use ralph_orchestrator_git::{CheckpointName, Diff, DiffEnd, RunRef};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::git::StoredRepository;

/// Returns the differences of two iterations as `diff --json` prints them.
pub(crate) fn object(diff: &Diff, (from, to): (u64, u64), has_patch: bool) -> Value {
    json!({
        "from": from,
        "to": to,
        "files": diff.files,
        "patch": has_patch.then(|| String::from_utf8_lossy(&diff.patch)),
        "patch_truncated": diff.is_patch_truncated && has_patch,
    })
}

/// Compares two checkpoints, with at most this many bytes of the patch, and without the run's secrets. Blocks.
pub(crate) fn compare(
    stored: &StoredRepository,
    iterations: &[u64],
    longest_patch: usize,
) -> Result<(u64, u64, Diff), CommandError> {
    let StoredRepository { repository, run, redactor } = stored;
    let (from, to) = match iterations {
        [] => {
            let last = last_iteration(stored, run)?;
            (last.saturating_sub(1), last)
        }
        [0] => {
            return Err(CommandError::user(
                "iteration 0 is the start of the run: nothing is before it",
            ));
        }
        [one] => (one.saturating_sub(1), *one),
        [from, to, ..] => (*from, *to),
    };
    let end = |iteration| {
        let found = repository.find_checkpoint(run, CheckpointName::Iteration(iteration));
        found.map(|found| DiffEnd::Tree(found.tree)).map_err(CommandError::from)
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

fn last_iteration(stored: &StoredRepository, run: &RunRef) -> Result<u64, CommandError> {
    let all = stored.repository.list_checkpoints(run)?;
    let iterations = all.iter().filter_map(|checkpoint| match checkpoint.name {
        CheckpointName::Iteration(number) if number > 0 => Some(number),
        _ => None,
    });
    iterations.max().ok_or_else(|| {
        CommandError::user("this run has no checkpoint of an iteration")
            .hinted("`[git] commit = \"checkpoint\"` makes one after each iteration")
    })
}
