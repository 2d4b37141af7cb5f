//! What git ignored when the run or an iteration began: it stays the user's, whatever ignore rules say later.

use std::collections::BTreeSet;

use crate::command::GitCommand;
use crate::error::Result;
use crate::path::{RepoPath, split_nul};
use crate::path_digests::PathDigests;
use crate::repository::Repository;
use crate::run_git::RunGit;

const RECORD: &str = "ignored.json";

impl Repository {
    /// Records what git ignores now, beside what it ignored before: no commit and no checkpoint takes that from now on,
    /// and no rollback deletes it.
    ///
    /// # Errors
    ///
    /// Fails if git does, or another operation of this run is active.
    pub fn record_ignored(&self) -> Result<()> {
        let _lock = self.lock_to_write()?;
        self.add_ignored()
    }

    /// Records the same. The caller holds the private folder's lock.
    pub(crate) fn add_ignored(&self) -> Result<()> {
        let mut known = self.read_ignored()?;
        if known.add(&list_ignored(self.user_git(), &*self.git)?) {
            self.private.write_record(RECORD, &known)?;
        }
        Ok(())
    }

    /// Returns what was recorded.
    pub(crate) fn read_ignored(&self) -> Result<PathDigests> {
        Ok(self.private.read_record(RECORD)?.unwrap_or_default())
    }
}

/// Returns what git ignores in the folder in which this command begins: a folder stands for all that is in it.
pub(crate) fn list_ignored(command: GitCommand, git: &dyn RunGit) -> Result<BTreeSet<RepoPath>> {
    let command = command.args(["ls-files", "-o", "-i", "--exclude-standard", "--directory"]);
    let listed = command.arg("-z").read(git)?;
    Ok(take_ignored(split_nul(&listed).collect()))
}

/// Returns the paths that rules name, of those that git lists. It also lists a folder for the files in it that are
/// ignored: what else appears in that one is not.
fn take_ignored(mut listed: Vec<&[u8]>) -> BTreeSet<RepoPath> {
    listed.sort_unstable();
    let is_for_others = |index: usize, path: &[u8]| {
        let next = listed.get(index.saturating_add(1));
        path.ends_with(b"/") && next.is_some_and(|next| next.starts_with(path))
    };
    let named = listed.iter().enumerate().filter(|(index, path)| !is_for_others(*index, path));
    named.map(|(_, path)| RepoPath::from_bytes(path.strip_suffix(b"/").unwrap_or(path))).collect()
}
