//! What is in no commit, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::changes::IterationStart;
use crate::error::{GitError, Result};
use crate::files::WorkspaceFiles;
use crate::path::RepoPath;
use crate::repository::{Repository, check_git};
use crate::run_git::RunGit;
use crate::snapshot::SkipReason;
use crate::worktree_start::list_uncommitted;

/// What is known of the files that a run changed.
#[derive(Debug, Clone, Default)]
pub struct ChangedPaths {
    /// Their paths.
    pub named: BTreeSet<RepoPath>,
    /// There are more of them.
    pub has_more: bool,
}

/// A file of a run that is in no commit, and why no commit takes it, if there is a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncommittedFile {
    /// Its path; a submodule's or another repository's for what lies in that.
    pub path: RepoPath,
    /// Why no commit takes it.
    pub reason: Option<SkipReason>,
}

impl Repository {
    /// Returns the files of a workspace, relative to it, that are changed, staged or untracked, whoever changed them.
    /// Filters run, confined if git is.
    ///
    /// # Errors
    ///
    /// Fails if there is no repository that can be used, or git fails.
    pub fn list_uncommitted(
        workspace: &Path,
        git: &dyn RunGit,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<Vec<RepoPath>> {
        let workspace = workspace.canonicalize().map_err(|error| GitError::io(workspace, error))?;
        check_git(&workspace, git, environment)?;
        let all = list_uncommitted(&workspace, environment, git)?;
        // As git finds it, without another process of git's.
        let top = workspace.ancestors().find(|folder| folder.join(".git").exists());
        let prefix = top.and_then(|top| workspace.strip_prefix(top).ok()).unwrap_or(Path::new(""));
        let below = all.iter().filter_map(|path| path.as_path().strip_prefix(prefix).ok());
        Ok(below.map(|path| RepoPath::from_bytes(path.as_os_str().as_bytes())).collect())
    }

    /// Returns which files that the run changed are in no commit, where something in a repository within the workspace
    /// counts as that one.
    ///
    /// # Errors
    ///
    /// Fails if the configuration is not the trusted one, since filters run, or git fails.
    pub fn list_uncommitted_work(&self, changed: &ChangedPaths) -> Result<Vec<UncommittedFile>> {
        let _lock = self.lock()?;
        self.verify_configuration(&self.workspace)?;
        let Some(start) = self.read_last_start()? else { return Ok(Vec::new()) };
        let is_work = |path: &RepoPath, start: &IterationStart| {
            changed.named.contains(path)
                || start.uncommitted.contains(path)
                || (changed.has_more && !start.dirty.contains(path))
        };
        let selection = self.select_changes(&start)?;
        let plain = selection.present.into_iter().chain(selection.deleted);
        let plain = plain.map(|path| UncommittedFile { path, reason: None });
        let skipped = selection.skipped.into_iter().filter(|it| it.reason != SkipReason::Ignored);
        let skipped = skipped.map(|it| UncommittedFile { path: it.path, reason: Some(it.reason) });
        let mut files: Vec<_> =
            plain.chain(skipped).filter(|file| is_work(&file.path, &start)).collect();
        files.extend(self.list_inner_repositories(changed)?);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(files)
    }

    /// Returns the repositories within the workspace in which something was changed.
    fn list_inner_repositories(&self, changed: &ChangedPaths) -> Result<Vec<UncommittedFile>> {
        let files = WorkspaceFiles::open(&self.workspace)?;
        let folders = changed.named.iter().flat_map(|path| path.with_parents().skip(1));
        let folders: BTreeSet<RepoPath> = folders.collect();
        let mut inner = Vec::new();
        for path in folders {
            let link = RepoPath::from_bytes([path.as_bytes(), b"/.git"].concat());
            if files.entry(&link)?.is_some() {
                inner.push(UncommittedFile { path, reason: Some(SkipReason::Repository) });
            }
        }
        Ok(inner)
    }
}
