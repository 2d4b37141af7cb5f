//! What was dirty when an iteration began, and what it changed since.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{GitError, Result};
use crate::files::{EntryKind, WorkspaceFiles};
use crate::path::{RepoPath, split_nul};
use crate::path_digests::PathDigests;
use crate::repository::{Head, Repository};
use crate::snapshot::{SkipReason, SkippedFile, find_content_reason};

const RECORD: &str = "iteration.json";

/// The repository when an iteration began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationStart {
    /// The iteration.
    pub iteration: u64,
    /// Where HEAD pointed.
    pub head: Head,
    /// What was changed, staged or untracked already: the user's own, which no commit takes.
    pub dirty: PathDigests,
    /// What was left to commit by earlier iterations, whose commits failed: the next commit takes it.
    #[serde(default)]
    pub uncommitted: PathDigests,
    /// What its commit would have taken could not be found out: the next one takes what has become dirty since.
    #[serde(default)]
    pub is_lost: bool,
}

/// What a commit of an iteration would take.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) present: BTreeSet<RepoPath>,
    pub(crate) deleted: BTreeSet<RepoPath>,
    pub(crate) skipped: Vec<SkippedFile>,
}

impl Selection {
    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.deleted.is_empty()
    }
}

impl Repository {
    /// Records what is dirty before an iteration's agent starts.
    ///
    /// Called again for the same iteration, after a crash, it returns what was recorded first. So that
    /// unfinished work of an interrupted iteration can be committed by its successor, begin that one
    /// after the commit of the former.
    ///
    /// # Errors
    ///
    /// Fails if git does, or its configuration is not the trusted one: a comparison runs filters.
    pub fn begin_iteration(&self, iteration: u64) -> Result<IterationStart> {
        self.keep_uncommitted(self.try_begin_iteration(iteration))
    }

    fn try_begin_iteration(&self, iteration: u64) -> Result<IterationStart> {
        let _lock = self.lock_to_write()?;
        let earlier = self.private.read_record::<IterationStart>(RECORD)?;
        if let Some(start) = earlier.as_ref().filter(|start| start.iteration == iteration) {
            return Ok(start.clone());
        }
        self.verify_configuration(&self.workspace)?;
        if let Some(earlier) = &earlier {
            let head = self.resolve("HEAD^{commit}")?;
            self.finish_earlier_commit(earlier, head.as_ref())?;
        }
        self.add_ignored()?;
        let head = self.head()?;
        let mut dirty: PathDigests = self.list_dirty()?.iter().collect();
        let is_same_branch = |start: &&IterationStart| start.head.branch() == head.branch();
        if let Some(lost) = earlier.as_ref().filter(|start| start.is_lost).filter(is_same_branch) {
            dirty.keep_common(&lost.dirty);
        }
        let mut uncommitted = earlier.map(|start| start.uncommitted).unwrap_or_default();
        uncommitted.keep_common(&dirty);
        dirty.remove_all(&uncommitted);
        let start = IterationStart { iteration, head, dirty, uncommitted, is_lost: false };
        self.private.write_record(RECORD, &start)?;
        Ok(start)
    }

    /// Records, if an iteration could not begin, or its commit failed, what was left to commit: the next commit takes it.
    /// Where that cannot be found out, as without a repository, it is all that became dirty since the last recorded start.
    pub(crate) fn keep_uncommitted<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) | Err(GitError::Busy(_)) => return result,
            Err(_) => {}
        }
        let _lock = self.private.lock()?;
        if let Some(start) = self.read_last_start()? {
            let kept = match self.find_uncommitted(&start) {
                Ok(uncommitted) => IterationStart { uncommitted, ..start.clone() },
                Err(_) => IterationStart { is_lost: true, ..start.clone() },
            };
            if kept != start {
                self.private.write_record(RECORD, &kept)?;
            }
        }
        result
    }

    /// Records, after a commit, that nothing is left of earlier ones.
    pub(crate) fn forget_uncommitted(&self) -> Result<()> {
        let _lock = self.private.lock()?;
        match self.read_last_start()? {
            Some(start) if start.is_lost || !start.uncommitted.is_empty() => {
                let uncommitted = PathDigests::default();
                let done = IterationStart { is_lost: false, uncommitted, ..start };
                self.private.write_record(RECORD, &done)
            }
            _ => Ok(()),
        }
    }

    /// Returns what a commit would take now. Filters run.
    fn find_uncommitted(&self, start: &IterationStart) -> Result<PathDigests> {
        self.verify_configuration(&self.workspace)?;
        let selection = self.select_changes(start)?;
        let mut uncommitted = start.uncommitted.clone();
        uncommitted.add(selection.present.iter().chain(&selection.deleted));
        Ok(uncommitted)
    }

    pub(crate) fn read_iteration_start(&self, iteration: u64) -> Result<IterationStart> {
        self.read_last_start()?
            .filter(|start| start.iteration == iteration)
            .ok_or(GitError::IterationNotRecorded(iteration))
    }

    /// Returns the start that was recorded last.
    pub(crate) fn read_last_start(&self) -> Result<Option<IterationStart>> {
        self.private.read_record(RECORD)
    }

    /// Returns what differs from HEAD or is untracked, in the workspace.
    ///
    /// Submodules are not entered: git would obey their own configuration there.
    fn list_dirty(&self) -> Result<BTreeSet<RepoPath>> {
        let output = self
            .programs_git(&self.workspace)
            .args(["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"])
            .args(["--ignore-submodules=all", "--", "."])
            .read(&*self.git)?;
        let prefix = self.workspace_prefix();
        let mut dirty = BTreeSet::new();
        let mut conflicts = BTreeSet::new();
        for record in split_nul(&output) {
            let (fields, is_conflict) = match record.first() {
                Some(b'1') => (9, false),
                Some(b'u') => (11, true),
                Some(b'?') => (2, false),
                _ => continue,
            };
            let path = record.splitn(fields, |byte| *byte == b' ').last().unwrap_or_default();
            let Some(path) = path.strip_prefix(prefix.as_slice()) else { continue };
            let path = RepoPath::from_bytes(path);
            if is_conflict {
                conflicts.insert(path.clone());
            }
            dirty.insert(path);
        }
        let others = conflicts.len().saturating_sub(1);
        match conflicts.pop_first() {
            None => Ok(dirty),
            Some(path) => Err(GitError::Unmerged { path, others }),
        }
    }

    /// Returns what a path from the working tree's top begins with in the workspace.
    pub(crate) fn workspace_prefix(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt as _;
        let below = self.workspace.strip_prefix(&self.top_level).unwrap_or(&self.workspace);
        let mut prefix = below.as_os_str().as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        prefix
    }

    /// Returns what the iteration changed and a commit may take.
    pub(crate) fn select_changes(&self, start: &IterationStart) -> Result<Selection> {
        let files = WorkspaceFiles::open(&self.workspace)?;
        let ignored = self.read_ignored()?;
        let mut selection = Selection::default();
        for path in self.list_dirty()? {
            let reason = if ignored.covers(&path) {
                Some(SkipReason::Ignored)
            } else if start.dirty.contains(&path) {
                Some(SkipReason::DirtyBefore)
            } else if let Some(entry) = files.entry(&path)? {
                self.find_reason(&files, &path, entry)
            } else {
                selection.deleted.insert(path);
                continue;
            };
            match reason {
                Some(reason) => selection.skipped.push(SkippedFile { path, reason }),
                None => {
                    selection.present.insert(path);
                }
            }
        }
        Ok(selection)
    }

    pub(crate) fn find_reason(
        &self,
        files: &WorkspaceFiles,
        path: &RepoPath,
        entry: EntryKind,
    ) -> Option<SkipReason> {
        self.find_skip_reason(path, entry, false).or_else(|| match entry {
            EntryKind::Regular { .. } => find_content_reason(files, path),
            EntryKind::Symlink | EntryKind::Folder | EntryKind::Special => None,
        })
    }
}
