//! Where a worktree would begin: read without writing anything.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::command::GitCommand;
use crate::error::{GitError, Result};
use crate::object_id::ObjectId;
use crate::operation::Operation;
use crate::path::{RepoPath, split_nul};
use crate::repository::{Head, Repository, find_operation, inspect};
use crate::run_git::RunGit;

/// What a worktree of a workspace's repository would begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeStart {
    /// The topmost folder of the user's working tree.
    pub top_level: PathBuf,
    /// The workspace, relative to that.
    pub inside: PathBuf,
    /// The git directory that all worktrees share.
    pub common_dir: PathBuf,
    /// HEAD's commit.
    pub base: ObjectId,
    /// HEAD's branch, unless HEAD is detached.
    pub branch: Option<String>,
    /// What is in progress.
    pub operation: Option<Operation>,
    /// How many files are changed, staged or untracked: none of that is in a worktree.
    pub uncommitted: u64,
}

impl WorktreeStart {
    /// Finds out where a worktree of the workspace's repository begins whose branch is called `prefix/…`.
    ///
    /// # Errors
    ///
    /// Fails if git is too old, there is no repository, it is bare, HEAD's branch has no commit, the commit
    /// does not have the workspace's folder, or a branch called `prefix` is in the way.
    pub fn find(
        workspace: &Path,
        prefix: &str,
        git: &dyn RunGit,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<Self> {
        let workspace = workspace.canonicalize().map_err(|error| GitError::io(workspace, error))?;
        inspect(&workspace, git, environment)?;
        let begin = || GitCommand::new(&workspace, environment);
        let path_of = |words: &[&str]| {
            let command = begin().args(["rev-parse", "--path-format=absolute"]);
            command.args(words.iter().copied()).read_path(git)
        };
        let top_level = path_of(&["--show-toplevel"])?;
        let common_dir = path_of(&["--git-common-dir"])?;
        let git_dir = path_of(&["--git-dir"])?;
        let head = Repository::read_head(&begin, git)?;
        let base = match &head {
            Head::Unborn { branch } => return Err(GitError::NoCommit(branch.clone())),
            Head::Branch { commit, .. } | Head::Detached { commit } => commit.clone(),
        };
        let reference = format!("refs/heads/{prefix}");
        let taken = begin().args(["rev-parse", "-q", "--verify", &reference]);
        if taken.read_optional(git)?.is_some() {
            return Err(GitError::BranchInTheWay { branch: prefix.to_owned() });
        }
        let inside = workspace.strip_prefix(&top_level).unwrap_or(Path::new("")).to_path_buf();
        if !inside.as_os_str().is_empty() {
            let mut tree = OsString::from(format!("{base}:"));
            tree.push(&inside);
            let found = begin().args(["rev-parse", "-q", "--verify"]).arg(tree);
            if found.read_optional(git)?.is_none() {
                return Err(GitError::NotInCommit { path: workspace.clone(), commit: base });
            }
        }
        let uncommitted = list_uncommitted(&top_level, environment, git)?.len();
        let uncommitted = u64::try_from(uncommitted).unwrap_or(u64::MAX);
        let branch = head.branch().map(str::to_owned);
        let operation = find_operation(&git_dir);
        Ok(Self { top_level, inside, common_dir, base, branch, operation, uncommitted })
    }
}

/// Returns the files of a working tree that are changed, staged or untracked. Filters run, confined if git is.
pub(crate) fn list_uncommitted(
    folder: &Path,
    environment: &BTreeMap<OsString, OsString>,
    git: &dyn RunGit,
) -> Result<Vec<RepoPath>> {
    let status = GitCommand::new(folder, environment).args([
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=all",
    ]);
    let status = status.confined_to(Vec::new()).read(git)?;
    let paths = split_nul(&status).map(|entry| entry.get(3..).unwrap_or_default());
    Ok(paths.map(RepoPath::from_bytes).collect())
}

/// Returns the paths of the submodules in the index of a working tree.
pub(crate) fn list_submodules(
    folder: &Path,
    environment: &BTreeMap<OsString, OsString>,
    git: &dyn RunGit,
) -> Result<Vec<RepoPath>> {
    let index = GitCommand::new(folder, environment).args(["ls-files", "-s", "-z"]).read(git)?;
    let entries = split_nul(&index).filter(|entry| entry.starts_with(b"160000 "));
    Ok(entries
        .filter_map(|entry| entry.split(|byte| *byte == b'\t').nth(1))
        .map(RepoPath::from_bytes)
        .collect())
}
