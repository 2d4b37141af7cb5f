//! Merges of two commits: made as an object, in no working tree; a branch and a working tree follow one only when asked to.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::command::{GitCommand, parse_object_id};
use crate::error::{GitError, Result, to_message};
use crate::inert_message::make_inert;
use crate::object_id::ObjectId;
use crate::path::{RepoPath, split_nul};
use crate::private::remove_if_there;
use crate::repository::Repository;
use crate::run_git::GitExit;

/// The oldest version of git that merges without a working tree.
const OLDEST: (u32, u32) = (2, 38);
/// What a worktree is called, after its own name, while it is removed.
const DISCARDED: &str = ".discarded";

/// What is to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    /// The commit into which is merged.
    pub ours: ObjectId,
    /// The commit that is merged.
    pub theirs: ObjectId,
    /// Files that stay as they are in ours, relative to the top of the tree.
    pub kept: Vec<RepoPath>,
    /// Files of which the lines of both sides stay.
    pub united: Vec<RepoPath>,
    /// The message of the commit.
    pub message: String,
}

/// A merge that was made as an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltMerge {
    /// The commit with both parents; ours, if nothing had to be merged. Where there are conflicts, the files have marks.
    pub commit: ObjectId,
    /// The files in conflict.
    pub conflicts: Vec<RepoPath>,
}

impl Repository {
    /// Fails if git is too old for merges.
    ///
    /// # Errors
    ///
    /// It is, or cannot be run.
    pub fn check_merges(&self) -> Result<()> {
        let text = self.user_git().arg("version").read_text(&*self.git)?;
        let mut numbers = text.split_whitespace().nth(2).unwrap_or_default().split('.');
        let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
        match (next(), next()) {
            (Some(major), Some(minor)) if (major, minor) < OLDEST => {
                Err(GitError::TooOldToMerge { found: text, major: OLDEST.0, minor: OLDEST.1 })
            }
            _ => Ok(()),
        }
    }

    /// Returns the commit of a branch; `None` if there is no such branch.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn find_branch_commit(&self, branch: &str) -> Result<Option<ObjectId>> {
        self.resolve(&format!("refs/heads/{branch}^{{commit}}"))
    }

    /// Returns whether the first commit is the second or one of its ancestors.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn is_ancestor(&self, one: &ObjectId, other: &ObjectId) -> Result<bool> {
        let command = self.user_git().args(["merge-base", "--is-ancestor", one.as_str()]);
        Ok(command.arg(other.as_str()).read_optional(&*self.git)?.is_some())
    }

    /// Returns the files in which two commits differ.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn list_differences(&self, one: &ObjectId, other: &ObjectId) -> Result<Vec<RepoPath>> {
        let command = self.private_git().args(["diff-tree", "-r", "-z", "--name-only"]);
        let command = command.args(["--no-renames", one.as_str(), other.as_str()]);
        let output = command.read(&*self.git)?;
        Ok(split_nul(&output).map(RepoPath::from_bytes).collect())
    }

    /// Removes what git keeps of worktrees on this branch whose folders are gone: it would let no other have the branch.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn forget_lost_worktrees(&self, branch: &str) -> Result<()> {
        let lost = self.list_worktrees()?.into_iter().filter(|worktree| {
            worktree.branch.as_deref() == Some(branch)
                && !worktree.is_main
                && !worktree.path.exists()
        });
        lost.into_iter().try_for_each(|worktree| self.discard_worktree(&worktree.path))
    }

    /// Merges two commits into a new one. No branch, index or file is written, and no program runs that a configuration
    /// names.
    ///
    /// # Errors
    ///
    /// Fails if git does, or another operation of the orchestrator is active.
    pub fn build_merge(&self, request: &MergeRequest) -> Result<BuiltMerge> {
        let _lock = self.lock()?;
        let MergeRequest { ours, theirs, kept, message, .. } = request;
        if self.is_ancestor(theirs, ours)? {
            return Ok(BuiltMerge { commit: ours.clone(), conflicts: Vec::new() });
        }
        let (tree, mut conflicts) = self.merge_trees(request)?;
        let tree = self.take_from(ours, kept, &tree)?;
        conflicts.retain(|path| !kept.contains(path));
        let command = self.user_git().args(["commit-tree", tree.as_str()]);
        let command = command.args(["-p", ours.as_str(), "-p", theirs.as_str(), "-F", "-"]);
        let command = command.stdin(make_inert(message).into_bytes());
        let commit = command.read_text(&*self.git)?;
        Ok(BuiltMerge { commit: parse_object_id(&commit, "commit-tree")?, conflicts })
    }

    /// Returns the merged tree, and the files in conflict.
    fn merge_trees(&self, request: &MergeRequest) -> Result<(ObjectId, Vec<RepoPath>)> {
        let MergeRequest { ours, theirs, united, .. } = request;
        let lines: Vec<u8> = united.iter().flat_map(to_union_line).collect();
        self.private.write_attributes_with(&lines)?;
        let command = self.private_git().args(["merge-tree", "--write-tree", "-z", "--name-only"]);
        let command = command.args(["--no-messages", ours.as_str(), theirs.as_str()]);
        let output = command.output(&*self.git);
        self.private.write_attributes()?;
        let output = output?;
        if !matches!(output.exit, GitExit::Status(0 | 1)) || output.is_truncated {
            let (exit, message) = (output.exit, to_message(&output.stderr));
            return Err(GitError::Failed { command: "merge-tree".to_owned(), exit, message });
        }
        let mut fields = split_nul(&output.stdout);
        let tree = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        let conflicts = fields.filter(|name| !name.is_empty()).map(RepoPath::from_bytes).collect();
        Ok((parse_object_id(&tree, "merge-tree")?, conflicts))
    }

    /// Returns the tree with these files as another commit has them.
    fn take_from(
        &self,
        commit: &ObjectId,
        paths: &[RepoPath],
        tree: &ObjectId,
    ) -> Result<ObjectId> {
        if paths.is_empty() {
            return Ok(tree.clone());
        }
        let index = self.private.rollback_index();
        remove_if_there(&index)?;
        let git = || self.private_git().env("GIT_INDEX_FILE", &index);
        git().args(["read-tree", tree.as_str()]).read(&*self.git)?;
        let none = "0".repeat(commit.as_str().len());
        let mut entries = Vec::new();
        for path in paths {
            let listed = git().args(["ls-tree", "-z", "--full-tree", commit.as_str(), "--"]);
            let listed = listed.arg(path.as_path()).read(&*self.git)?;
            // In conflict, it has several entries there.
            entries.extend_from_slice(format!("0 {none}\t").as_bytes());
            entries.extend_from_slice(path.as_bytes());
            entries.push(0);
            entries.extend_from_slice(&listed);
        }
        git().args(["update-index", "-z", "--index-info"]).stdin(entries).read(&*self.git)?;
        let tree = git().arg("write-tree").read_text(&*self.git)?;
        remove_if_there(&index)?;
        parse_object_id(&tree, "write-tree")
    }

    /// Returns those of these files of a commit that still have marks of a conflict.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn find_conflict_marks(
        &self,
        commit: &ObjectId,
        paths: &[RepoPath],
    ) -> Result<Vec<RepoPath>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let command = self.private_git().args(["grep", "-l", "-z", "--full-name", "-E"]);
        let mut command = command.args(["^(<<<<<<<|>>>>>>>) [0-9a-f]{40}", commit.as_str(), "--"]);
        for path in paths {
            command = command.arg(path.as_path());
        }
        let found = command.read_optional(&*self.git)?.unwrap_or_default();
        let skipped = commit.as_str().len() + 1;
        let names = split_nul(&found).map(|name| name.get(skipped..).unwrap_or_default());
        Ok(names.map(RepoPath::from_bytes).collect())
    }

    /// Moves a branch from one commit to another, by no hook. Does nothing if it is there already.
    ///
    /// # Errors
    ///
    /// Fails if the branch is at neither of them, leads over a link, or git fails.
    pub fn move_branch(&self, branch: &str, from: &ObjectId, to: &ObjectId) -> Result<()> {
        let _lock = self.lock()?;
        let reference = format!("refs/heads/{branch}");
        self.refuse_links(&reference)?;
        self.remove_left_lock(&reference)?;
        if self.resolve(&reference)?.as_ref() == Some(to) {
            return Ok(());
        }
        let command = self.user_git().configure("core.hooksPath", "/dev/null");
        let command = command.args(["update-ref", "-m", "ralph-orchestrator: merge", &reference]);
        command.args([to.as_str(), from.as_str()]).read(&*self.git).map(drop)
    }

    /// Deletes a branch that is at this commit. Does nothing if it is gone.
    ///
    /// # Errors
    ///
    /// Fails if it is at another commit, or git does.
    pub fn delete_branch(&self, branch: &str, at: &ObjectId) -> Result<()> {
        let _lock = self.lock()?;
        let reference = format!("refs/heads/{branch}");
        self.refuse_links(&reference)?;
        self.remove_left_lock(&reference)?;
        if self.resolve(&reference)?.is_none() {
            return Ok(());
        }
        self.remove_left_lock_of_packed_refs()?;
        let command = self.user_git().configure("core.hooksPath", "/dev/null");
        command.args(["update-ref", "-d", &reference, at.as_str()]).read(&*self.git).map(drop)
    }

    /// Makes index and files of a worktree what a commit has, but for these paths. What is untracked stays. It can be repeated
    /// after a crash.
    ///
    /// # Errors
    ///
    /// Fails if the configuration is not the trusted one, whose filters run, or git does.
    pub fn restore_worktree(
        &self,
        folder: &Path,
        commit: &ObjectId,
        without: &[RepoPath],
    ) -> Result<()> {
        let _lock = self.lock()?;
        self.verify_configuration(&self.workspace)?;
        self.remove_index_lock(folder)?;
        let command = GitCommand::new(folder, &self.outer).for_hooks(&self.outer);
        let command = command.confined_to(self.worktree_folders(folder));
        let source = format!("--source={commit}");
        let command = command.configure("core.hooksPath", "/dev/null");
        let mut command =
            command.args(["restore", "--quiet", &source, "--staged", "--worktree", "--", ":(top)"]);
        for path in without {
            let mut excluded = OsString::from(":(top,exclude,literal)");
            excluded.push(path.as_path());
            command = command.arg(excluded);
        }
        command.read(&*self.git).map(drop)
    }

    /// Removes the lock that a killed git has left on the index of a worktree in which only the orchestrator works now.
    fn remove_index_lock(&self, folder: &Path) -> Result<()> {
        let command = GitCommand::new(folder, &self.outer);
        let command = command.args(["rev-parse", "--path-format=absolute", "--git-path"]);
        remove_if_there(&command.arg("index.lock").read_path(&*self.git)?)
    }

    /// Returns the tracked files of a worktree that are changed or staged, but for these paths.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn list_tracked_changes(
        &self,
        folder: &Path,
        without: &[RepoPath],
    ) -> Result<Vec<RepoPath>> {
        let command = GitCommand::new(folder, &self.outer).confined_to(Vec::new());
        let command = command.args(["status", "--porcelain=v1", "-z", "--no-renames"]);
        let command = command.args(["--untracked-files=no", "--ignore-submodules=all"]);
        let output = command.read(&*self.git)?;
        let paths = split_nul(&output).map(|entry| entry.get(3..).unwrap_or_default());
        let paths = paths.map(RepoPath::from_bytes);
        Ok(paths.filter(|path| !without.contains(path)).collect())
    }

    /// Creates a worktree of a commit, on no branch, in place of what a killed attempt left there.
    ///
    /// # Errors
    ///
    /// Fails if the configuration is not the trusted one, or git does.
    pub fn create_detached_worktree(&self, path: &Path, commit: &ObjectId) -> Result<()> {
        self.discard_worktree(path)?;
        let _lock = self.lock()?;
        self.verify_configuration(&self.workspace)?;
        self.refuse_links("worktrees")?;
        let _alone = self.lock_worktrees()?;
        let command = self.confined_worktree_git(path)?.args(["add", "--quiet", "--detach"]);
        command.arg(path).arg(commit.as_str()).read(&*self.git).map(drop)
    }

    /// Removes a worktree with everything in it, also what a killed attempt left of one. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// Fails if it is the main one, or git does.
    pub fn discard_worktree(&self, path: &Path) -> Result<()> {
        let _lock = self.lock()?;
        let path = to_real_parent(path);
        let _alone = self.lock_worktrees()?;
        self.remove_incomplete(&path)?;
        let mut all = self.list_worktrees()?.into_iter();
        let known = all.find(|worktree| worktree.path == path);
        if known.as_ref().is_some_and(|worktree| worktree.is_main) {
            return Err(GitError::NoWorktree(path));
        }
        // Git itself removes file by file, and refuses one of which it was killed in the middle.
        let mut aside = path.clone().into_os_string();
        aside.push(DISCARDED);
        let aside = PathBuf::from(aside);
        ignore_missing(fs::remove_dir_all(&aside), &aside)?;
        ignore_missing(fs::rename(&path, &aside), &path)?;
        ignore_missing(fs::remove_dir_all(&aside), &aside)?;
        if known.is_some() {
            let command = self.worktree_git().args(["remove", "--force", "--force"]);
            command.arg(&path).read(&*self.git)?;
        }
        Ok(())
    }
}

fn ignore_missing(done: std::io::Result<()>, path: &Path) -> Result<()> {
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(GitError::io(path, error)),
        _ => Ok(()),
    }
}

/// Returns a path with the real path of the folder that it is in: so git names worktrees.
fn to_real_parent(path: &Path) -> PathBuf {
    let real = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (real, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Returns the line of an attributes file that keeps the lines of both sides.
fn to_union_line(path: &RepoPath) -> Vec<u8> {
    let mut line = b"\"/".to_vec();
    for byte in path.as_bytes() {
        match byte {
            // A pattern: what means something in it is taken literally, in a quoted string.
            b'*' | b'?' | b'[' => line.extend_from_slice(&[b'\\', b'\\', *byte]),
            b'\\' => line.extend_from_slice(b"\\\\\\\\"),
            b'"' => line.extend_from_slice(b"\\\""),
            _ => line.push(*byte),
        }
    }
    line.extend_from_slice(b"\" merge=union\n");
    line
}
