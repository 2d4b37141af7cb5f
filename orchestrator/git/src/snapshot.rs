//! The workspace's files as a tree, through an index of the orchestrator's own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::command::parse_object_id;
use crate::error::{GitError, Result};
use crate::files::{EntryKind, WorkspaceFiles};
use crate::object_id::ObjectId;
use crate::path::{RepoPath, join_nul, split_nul};
use crate::private::remove_if_there;
use crate::repository::Repository;
use crate::secrets::{has_secret_content, has_secret_name};

/// Why a file that is not ignored is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// Its name or content looks like a secret.
    Secret,
    /// It is larger than the policy allows.
    TooLarge,
    /// It is no regular file and no symbolic link.
    Special,
    /// It is a submodule or another repository.
    Repository,
    /// It cannot be read.
    Unreadable,
    /// It was changed, staged or untracked before the iteration began.
    DirtyBefore,
    /// Git ignored it when the run or an iteration began.
    Ignored,
}

impl SkipReason {
    /// Returns its name in records and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::TooLarge => "too_large",
            Self::Special => "special",
            Self::Repository => "repository",
            Self::Unreadable => "unreadable",
            Self::DirtyBefore => "dirty_before",
            Self::Ignored => "ignored",
        }
    }
}

/// A file that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// Its path.
    pub path: RepoPath,
    /// Why.
    pub reason: SkipReason,
}

/// The workspace at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) tree: ObjectId,
    pub(crate) skipped: Vec<SkippedFile>,
    pub(crate) paths: BTreeSet<RepoPath>,
}

impl Snapshot {
    /// Returns what a checkpoint of it does not have, but for what git ignored before: no rollback touches that.
    pub(crate) fn left_out(&self) -> Vec<SkippedFile> {
        let files = self.skipped.iter().filter(|file| file.reason != SkipReason::Ignored);
        files.cloned().collect()
    }
}

impl Repository {
    /// Stores the workspace's files as a tree. The caller holds the private folder's lock.
    ///
    /// The private index keeps sizes and times of files, so that only changed ones are read.
    pub(crate) fn take_snapshot(&self) -> Result<Snapshot> {
        let index = self.private.git_dir().join("index");
        let had_index = index.exists();
        match self.try_snapshot() {
            // The private index may be damaged, or name objects that were deleted: without it, every
            // file is read again.
            Err(GitError::Failed { .. }) if had_index => {
                remove_if_there(&index)?;
                self.try_snapshot()
            }
            outcome => outcome,
        }
    }

    fn try_snapshot(&self) -> Result<Snapshot> {
        let files = WorkspaceFiles::open(&self.workspace)?;
        let mut skipped = Vec::new();
        let mut wanted = self.list_candidates(&files, &mut skipped)?;
        let indexed = self.list_private(&["ls-files", "-z"])?;
        let modified = self.list_private(&["ls-files", "-m", "-z"])?;
        let changed: Vec<RepoPath> = wanted
            .keys()
            .filter(|path| !indexed.contains(*path) || modified.contains(*path))
            .cloned()
            .collect();
        for path in &changed {
            if let Some(EntryKind::Regular { .. }) = wanted.get(path)
                && let Some(reason) = find_content_reason(&files, path)
            {
                wanted.remove(path);
                skipped.push(SkippedFile { path: path.clone(), reason });
            }
        }
        let removed: Vec<&RepoPath> =
            indexed.iter().filter(|path| !wanted.contains_key(*path)).collect();
        self.update_private(&["--force-remove"], join_nul(removed))?;
        let added = changed.iter().filter(|path| wanted.contains_key(*path));
        self.update_private(&["--add", "--remove", "--replace"], join_nul(added))?;
        let tree = self.private_git().arg("write-tree").read_text(&*self.git)?;
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Snapshot {
            tree: parse_object_id(&tree, "write-tree")?,
            skipped,
            paths: wanted.into_keys().collect(),
        })
    }

    /// Returns what git would take: tracked files that exist, and untracked ones not ignored.
    fn list_candidates(
        &self,
        files: &WorkspaceFiles,
        skipped: &mut Vec<SkippedFile>,
    ) -> Result<BTreeMap<RepoPath, EntryKind>> {
        let tracked = self.user_git().args(["ls-files", "-s", "-z"]).read(&*self.git)?;
        let others = self
            .user_git()
            .args(["ls-files", "-o", "--exclude-standard", "-z"])
            .read(&*self.git)?;
        let ignored = self.read_ignored()?;
        let mut listed = BTreeMap::new();
        for entry in split_nul(&tracked) {
            let is_submodule = entry.starts_with(b"160000 ");
            let path = entry.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
            listed.insert(RepoPath::from_bytes(path), is_submodule);
        }
        for path in split_nul(&others) {
            let name = path.strip_suffix(b"/");
            listed.insert(RepoPath::from_bytes(name.unwrap_or(path)), name.is_some());
        }
        let mut wanted = BTreeMap::new();
        for (path, is_repository) in listed {
            let Some(entry) = files.entry(&path)? else { continue };
            let reason = match ignored.covers(&path) {
                true => Some(SkipReason::Ignored),
                false => self.find_skip_reason(&path, entry, is_repository),
            };
            match reason {
                None => {
                    wanted.insert(path, entry);
                }
                Some(reason) => skipped.push(SkippedFile { path, reason }),
            }
        }
        Ok(wanted)
    }

    /// Returns why a file is left out, as far as its name and kind say it.
    pub(crate) fn find_skip_reason(
        &self,
        path: &RepoPath,
        entry: EntryKind,
        is_repository: bool,
    ) -> Option<SkipReason> {
        match entry {
            _ if is_repository => Some(SkipReason::Repository),
            EntryKind::Folder => Some(SkipReason::Repository),
            EntryKind::Special => Some(SkipReason::Special),
            _ if has_secret_name(path) => Some(SkipReason::Secret),
            EntryKind::Regular { size, .. } if size > self.file_policy.max_file_bytes => {
                Some(SkipReason::TooLarge)
            }
            EntryKind::Regular { .. } | EntryKind::Symlink => None,
        }
    }

    fn list_private(&self, arguments: &[&str]) -> Result<BTreeSet<RepoPath>> {
        let command = self.private_git().args(arguments.iter().copied());
        let output = command.read(&*self.git)?;
        Ok(split_nul(&output).map(RepoPath::from_bytes).collect())
    }

    fn update_private(&self, options: &[&str], paths: Vec<u8>) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let command = self.private_git().arg("update-index").args(options.iter().copied());
        command.args(["-z", "--stdin"]).stdin(paths).read(&*self.git).map(drop)
    }
}

/// Returns why a regular file is left out for what is in it.
pub(crate) fn find_content_reason(files: &WorkspaceFiles, path: &RepoPath) -> Option<SkipReason> {
    match has_secret_content(files, path) {
        Ok(false) => None,
        Ok(true) => Some(SkipReason::Secret),
        Err(_) => Some(SkipReason::Unreadable),
    }
}
