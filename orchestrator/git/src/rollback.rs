//! Rollback: the workspace's files as a checkpoint has them, with nothing lost.

use std::collections::BTreeSet;
use std::io;

use rustix::fs::{Dir, FileType, Mode, fchmod};
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::checkpoint_name::{CheckpointName, RunRef};
use crate::command::parse_object_id;
use crate::diff::{FileChange, FileStatus};
use crate::error::{GitError, Result};
use crate::files::{EntryKind, WorkspaceFiles};
use crate::object_id::ObjectId;
use crate::path::{RepoPath, join_nul, split_nul};
use crate::private::remove_if_there;
use crate::repository::Repository;
use crate::snapshot::{SkippedFile, Snapshot};

/// What has to hold before a rollback changes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackGuard {
    /// All content that would disappear is in a checkpoint of the run, or in HEAD; else nothing is done.
    RequireCheckpoint,
    /// A checkpoint [`CheckpointName::BeforeRollback`] is made first, unless one has these files.
    SaveFirst,
}

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RollbackOutcome {
    /// The checkpoint whose files are in the workspace now.
    pub target: Checkpoint,
    /// A checkpoint with the files as they were before; `None` if their contents are in several.
    pub saved: Option<Checkpoint>,
    /// The files that were changed; none if the workspace was like this already, as far as checkpoints have it.
    pub files: Vec<FileChange>,
    /// What stays as it is, since that checkpoint left it out, or any would now.
    pub not_restored: Vec<SkippedFile>,
}

impl Repository {
    /// Makes the workspace's files what a checkpoint of the run has.
    ///
    /// HEAD, branches and the user's index stay as they are: what was staged stays staged, and the
    /// user sees the rollback as changes that are not committed. What this checkpoint left out, or any would now, stays
    /// too: it cannot be restored, so it is not deleted. Git writes the files one after another. When it is killed meanwhile, some are old and some
    /// new; the same rollback with [`RollbackGuard::SaveFirst`] completes it.
    ///
    /// # Errors
    ///
    /// Fails, with no file changed, if something is in progress, content would be lost, a file that
    /// checkpoints leave out is in the way, or the checkpoint does not exist.
    pub fn rollback(
        &self,
        run: &RunRef,
        to: CheckpointName,
        guard: RollbackGuard,
    ) -> Result<RollbackOutcome> {
        self.rollback_except(run, to, guard, &|_| false, &|_| Ok(()))
    }

    /// Does the same, but leaves the files as they are of which `is_kept` says so. Calls `begin` with the checkpoint that
    /// has what was there before, if it is one, when everything is prepared: no file is changed if that fails.
    ///
    /// # Errors
    ///
    /// As [`rollback`](Self::rollback).
    pub fn rollback_except(
        &self,
        run: &RunRef,
        to: CheckpointName,
        guard: RollbackGuard,
        is_kept: &dyn Fn(&RepoPath) -> bool,
        begin: &dyn Fn(Option<&Checkpoint>) -> io::Result<()>,
    ) -> Result<RollbackOutcome> {
        let _lock = self.lock_to_write()?;
        if let Some(operation) = self.operation() {
            return Err(GitError::InProgress(operation));
        }
        let target = self.find_checkpoint(run, to)?;
        let current = self.take_snapshot()?;
        if self.recorded.is_some() {
            self.verify_checkpoint(&target, Some(&current.tree))?;
        }
        let files = self.list_changes(&current.tree, &target.tree)?;
        let unknown: BTreeSet<&RepoPath> = target.left_out.iter().map(|file| &file.path).collect();
        let is_unknown = |path: &RepoPath| path.with_parents().any(|path| unknown.contains(&path));
        let (kept, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| is_kept(&file.path) || is_unknown(&file.path));
        let not_restored = list_not_restored(&target, &current);
        if files.is_empty() {
            return Ok(RollbackOutcome { target, saved: None, files, not_restored });
        }
        let workspace = WorkspaceFiles::open(&self.workspace)?;
        refuse_to_overwrite(&workspace, &current, &files)?;
        let modes = collect_modes(&workspace, &files)?;
        let before = current.tree.clone();
        let tree = self.keep_files(&before, &target.tree, &kept)?;
        let saved = match guard {
            RollbackGuard::SaveFirst => Some(self.save_before_rollback(run, to, current)?),
            RollbackGuard::RequireCheckpoint => {
                self.refuse_to_lose(run, &before, &files)?;
                self.list_checkpoints(run)?
                    .into_iter()
                    .rfind(|checkpoint| checkpoint.tree == before)
            }
        };
        begin(saved.as_ref()).map_err(|error| GitError::io(&self.workspace, error))?;
        // A file that was written again with the same content is as the index has it, but for its times.
        let refresh = self.private_git().args(["update-index", "-q", "--refresh"]);
        refresh.read(&*self.git)?;
        self.private_git()
            .args(["read-tree", "-m", "-u", before.as_str(), tree.as_str()])
            .read(&*self.git)?;
        restore_modes(&workspace, modes)?;
        Ok(RollbackOutcome { target, saved, files, not_restored })
    }

    /// Returns the tree of a target with these files as they are in `current`.
    fn keep_files(
        &self,
        current: &ObjectId,
        target: &ObjectId,
        kept: &[FileChange],
    ) -> Result<ObjectId> {
        if kept.is_empty() {
            return Ok(target.clone());
        }
        let index = self.private.rollback_index();
        remove_if_there(&index)?;
        let git = || self.private_git().env("GIT_INDEX_FILE", &index);
        git().args(["read-tree", target.as_str()]).read(&*self.git)?;
        let paths: BTreeSet<&[u8]> = kept.iter().map(|file| file.path.as_bytes()).collect();
        let remove = git().args(["update-index", "--force-remove", "-z", "--stdin"]);
        remove.stdin(join_nul(kept.iter().map(|file| &file.path))).read(&*self.git)?;
        let listed = self.private_git().args(["ls-tree", "-r", "-z", current.as_str()]);
        let listed = listed.read(&*self.git)?;
        let is_kept = |entry: &&[u8]| {
            let path = entry.splitn(2, |byte| *byte == b'\t').nth(1);
            path.is_some_and(|path| paths.contains(path))
        };
        let entries: Vec<&[u8]> = split_nul(&listed).filter(is_kept).collect();
        let entries: Vec<u8> =
            entries.iter().flat_map(|entry| [entry, &b"\0"[..]].concat()).collect();
        let add = git().args(["update-index", "--replace", "-z", "--index-info"]);
        add.stdin(entries).read(&*self.git)?;
        let tree = git().arg("write-tree").read_text(&*self.git)?;
        remove_if_there(&index)?;
        parse_object_id(&tree, "write-tree")
    }

    fn save_before_rollback(
        &self,
        run: &RunRef,
        to: CheckpointName,
        current: Snapshot,
    ) -> Result<Checkpoint> {
        let mut existing = self.list_checkpoints(run)?;
        let left_out = current.left_out();
        let is_same = |checkpoint: &Checkpoint| {
            checkpoint.tree == current.tree && checkpoint.left_out == left_out
        };
        if let Some(same) = existing.iter().rposition(is_same) {
            return Ok(existing.swap_remove(same));
        }
        let refs = self.list_refs(run)?;
        // A ref that nobody recorded keeps its name.
        let all = existing.iter().chain(&refs);
        let last = all.filter_map(|checkpoint| match checkpoint.name {
            CheckpointName::BeforeRollback(number) => Some(number),
            CheckpointName::Iteration(_) => None,
        });
        let last = last.max();
        let name = CheckpointName::BeforeRollback(last.unwrap_or(0).saturating_add(1));
        let message = format!("Save the workspace before the rollback to {to}\n");
        self.store_checkpoint(run, name, current, &message).map(|outcome| outcome.checkpoint)
    }

    fn refuse_to_lose(&self, run: &RunRef, before: &ObjectId, files: &[FileChange]) -> Result<()> {
        let mut unsaved: BTreeSet<&RepoPath> = files
            .iter()
            .filter(|file| file.status != FileStatus::Added)
            .map(|file| &file.path)
            .collect();
        let mut trees: Vec<ObjectId> =
            self.list_checkpoints(run)?.into_iter().rev().map(|entry| entry.tree).collect();
        trees.extend(self.resolve("HEAD:./")?);
        for tree in trees {
            if unsaved.is_empty() {
                break;
            }
            let differing = self.list_changes(before, &tree)?;
            let differing: BTreeSet<&RepoPath> = differing.iter().map(|file| &file.path).collect();
            unsaved.retain(|path| differing.contains(path));
        }
        let others = unsaved.len().saturating_sub(1);
        match unsaved.pop_first() {
            None => Ok(()),
            Some(first) => Err(GitError::Unsaved { first: first.clone(), others }),
        }
    }
}

/// Returns what a rollback leaves as it is: what the target left out, and what a checkpoint would leave out now.
fn list_not_restored(target: &Checkpoint, current: &Snapshot) -> Vec<SkippedFile> {
    let mut files: Vec<_> = target.left_out.iter().cloned().chain(current.left_out()).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    files
}

/// Fails if a file that would be written exists although the snapshot does not have it.
fn refuse_to_overwrite(
    workspace: &WorkspaceFiles,
    current: &Snapshot,
    files: &[FileChange],
) -> Result<()> {
    let mut in_the_way = BTreeSet::new();
    for file in files.iter().filter(|file| file.status == FileStatus::Added) {
        match workspace.entry(&file.path)? {
            Some(EntryKind::Folder) => {
                collect_foreign(workspace, current, &file.path, &mut in_the_way)?;
            }
            Some(_) => {
                in_the_way.insert(file.path.clone());
            }
            None => {
                for (index, _) in
                    file.path.as_bytes().iter().enumerate().filter(|(_, b)| **b == b'/')
                {
                    let folder = file.path.as_bytes().get(..index).unwrap_or_default();
                    let folder = RepoPath::from_bytes(folder);
                    let entry = workspace.entry(&folder)?;
                    let is_file = entry.is_some_and(|entry| entry != EntryKind::Folder);
                    if is_file && !current.paths.contains(&folder) {
                        in_the_way.insert(folder);
                    }
                }
            }
        }
    }
    let others = in_the_way.len().saturating_sub(1);
    match in_the_way.pop_first() {
        None => Ok(()),
        Some(first) => Err(GitError::WouldOverwrite { first, others }),
    }
}

/// Adds the files below a folder that the snapshot does not have.
fn collect_foreign(
    workspace: &WorkspaceFiles,
    current: &Snapshot,
    folder: &RepoPath,
    found: &mut BTreeSet<RepoPath>,
) -> Result<()> {
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        let fail = |error| GitError::io(folder.as_path(), error);
        let opened = workspace.open_folder(&folder).map_err(fail)?;
        for entry in Dir::new(opened).map_err(|error| fail(error.into()))? {
            let entry = entry.map_err(|error| fail(error.into()))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let path = RepoPath::from_bytes([folder.as_bytes(), b"/", name].concat());
            let kind = match entry.file_type() {
                FileType::Unknown => workspace.entry(&path)?,
                FileType::Directory => Some(EntryKind::Folder),
                _ => None,
            };
            if kind == Some(EntryKind::Folder) {
                folders.push(path);
            } else if !current.paths.contains(&path) {
                found.insert(path);
            }
        }
    }
    Ok(())
}

/// Returns the permissions of the regular files that will be written anew.
fn collect_modes(workspace: &WorkspaceFiles, files: &[FileChange]) -> Result<Vec<(RepoPath, u32)>> {
    let mut modes = Vec::new();
    for file in files.iter().filter(|file| file.status == FileStatus::Modified) {
        if let Some(EntryKind::Regular { mode, .. }) = workspace.entry(&file.path)? {
            modes.push((file.path.clone(), mode));
        }
    }
    Ok(modes)
}

/// Gives files back who may read and write them; whether they are executable is the checkpoint's.
fn restore_modes(workspace: &WorkspaceFiles, modes: Vec<(RepoPath, u32)>) -> Result<()> {
    for (path, before) in modes {
        let Some(EntryKind::Regular { mode: after, .. }) = workspace.entry(&path)? else {
            continue;
        };
        let access = before & 0o666;
        let execution = if after & 0o100 == 0 { 0 } else { (access & 0o444) >> 2 };
        let mode = access | execution;
        if mode != after {
            let file = workspace.open_regular(&path);
            let file = file.map_err(|error| GitError::io(path.as_path(), error))?;
            fchmod(&file, Mode::from_raw_mode(mode))
                .map_err(|error| GitError::io(path.as_path(), error))?;
        }
    }
    Ok(())
}
