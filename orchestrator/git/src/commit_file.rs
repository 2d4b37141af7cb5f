//! A commit of one file in which the orchestrator itself records something.

use std::collections::BTreeSet;
use std::io::Read as _;

use crate::changes::Selection;
use crate::commit::{CommitIntent, CommitOutcome, CommitPolicy};
use crate::error::{GitError, Result};
use crate::files::{EntryKind, WorkspaceFiles};
use crate::inert_message::make_inert;
use crate::object_id::ObjectId;
use crate::path::{RepoPath, split_nul};
use crate::path_digests::PathDigests;
use crate::private::remove_if_there;
use crate::repository::Repository;
use crate::snapshot::{SkipReason, SkippedFile};

const RECORD: &str = "file-commit.json";

/// How a file differs from HEAD.
enum FileState {
    /// Not at all, or HEAD does not have it: there is nothing to commit.
    Settled,
    /// In the workspace, and the index has what HEAD has.
    Modified,
    /// Otherwise: it is staged, deleted, or in conflict.
    Other,
}

impl Repository {
    /// Commits one file of the workspace as it is, on the current branch, and nothing else.
    ///
    /// `accepts` gets the content in HEAD and that of the file; if it refuses, there is no commit, and
    /// the file is reported as skipped. So is a file that is staged, deleted, or looks like a secret. A
    /// file that HEAD does not have is left alone. Otherwise as [`commit`](Self::commit). Repeated after
    /// a crash, it finishes what was begun.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn commit_file(
        &self,
        path: &RepoPath,
        message: &str,
        policy: &CommitPolicy,
        accepts: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<CommitOutcome> {
        let _lock = self.lock()?;
        let message = &make_inert(message);
        let (branch, head) = self.find_branch(policy)?;
        let start = self.read_last_start()?;
        if let Some(expected) = start.as_ref().and_then(|start| start.head.branch())
            && expected != branch
        {
            let expected = expected.to_owned();
            return Err(GitError::BranchChanged { expected, found: branch });
        }
        self.verify_configuration(&self.workspace)?;
        let earlier = self.finish_file_commit(head.as_ref())?;
        let commit = earlier.filter(|(_, earlier)| earlier == message).map(|(id, _)| id);
        let unused_signing = Vec::new();
        let without =
            |skipped| Ok(CommitOutcome { commit, is_new: false, skipped, unused_signing });
        let reason = match self.find_file_state(path)? {
            FileState::Settled => return without(Vec::new()),
            FileState::Other => Some(SkipReason::DirtyBefore),
            FileState::Modified => self.find_refusal(path, accepts)?,
        };
        if let Some(reason) = reason {
            return without(vec![SkippedFile { path: path.clone(), reason }]);
        }
        let selection =
            Selection { present: BTreeSet::from([path.clone()]), ..Selection::default() };
        self.prepare_index(head.as_ref(), &selection)?;
        let intent = CommitIntent::now(0, head, message);
        let commit = self.make_commit(RECORD, &intent, &PathDigests::default())?;
        let (skipped, unused_signing) = (Vec::new(), self.list_unused_signing()?);
        Ok(CommitOutcome { commit: Some(commit), is_new: true, skipped, unused_signing })
    }

    /// Returns why a modified file is not committed.
    fn find_refusal(
        &self,
        path: &RepoPath,
        accepts: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Option<SkipReason>> {
        let files = WorkspaceFiles::open(&self.workspace)?;
        let entry = files.entry(path)?;
        let (Some(entry @ EntryKind::Regular { .. }), Some(name)) =
            (entry, path.as_path().to_str())
        else {
            return Ok(Some(SkipReason::Special));
        };
        if let Some(reason) = self.find_reason(&files, path, entry) {
            return Ok(Some(reason));
        }
        let Some(blob) = self.resolve(&format!("HEAD:./{name}"))? else {
            return Ok(Some(SkipReason::DirtyBefore));
        };
        let before = self.private_git().args(["cat-file", "blob", blob.as_str()]);
        let before = before.read(&*self.git)?;
        let mut now = Vec::new();
        let read = files
            .open_regular(path)
            .and_then(|file| file.take(self.file_policy.max_file_bytes).read_to_end(&mut now));
        read.map_err(|error| GitError::io(path.as_path(), error))?;
        Ok((!accepts(&before, &now)).then_some(SkipReason::DirtyBefore))
    }

    fn find_file_state(&self, path: &RepoPath) -> Result<FileState> {
        let mut command = self
            .programs_git(&self.workspace)
            .args(["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"])
            .args(["--ignore-submodules=all", "--"]);
        command = command.arg(path.as_path());
        let output = command.read(&*self.git)?;
        let record = split_nul(&output).next();
        Ok(match record {
            None => FileState::Settled,
            Some(record) if record.starts_with(b"?") => FileState::Settled,
            Some(record) if record.starts_with(b"1 .M ") => FileState::Modified,
            Some(_) => FileState::Other,
        })
    }

    /// Brings the user's index in line with a commit that was made before a crash, and returns that
    /// commit and its message.
    fn finish_file_commit(&self, head: Option<&ObjectId>) -> Result<Option<(ObjectId, String)>> {
        let Some(intent) = self.private.read_record::<CommitIntent>(RECORD)? else {
            return Ok(None);
        };
        if head == intent.parent.as_ref() {
            return Ok(None);
        }
        let Some(commit) = self.find_intended(&intent)? else { return Ok(None) };
        if self.commit_index().exists() {
            self.update_user_index(&commit, intent.parent.as_ref(), &PathDigests::default())?;
            remove_if_there(&self.commit_index())?;
        }
        Ok(Some((commit, intent.message)))
    }
}
