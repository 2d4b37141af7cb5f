//! Linked worktrees: a working tree and a branch of a run's own.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::command::{GitCommand, parse_object_id};
use crate::error::{GitError, Result};
use crate::ignored::list_ignored;
use crate::object_id::ObjectId;
use crate::path::{RepoPath, split_nul};
use crate::private::remove_if_there;
use crate::repository::{Repository, find_operation};
use crate::run_git::GitExit;
use crate::worktree_start::{list_submodules, list_uncommitted};

/// The reason by which git itself locks a worktree while it is created.
const INITIALIZING: &str = "initializing";

/// Which worktree is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeRequest {
    /// Its folder, which does not exist or is empty.
    pub path: PathBuf,
    /// Its branch, which is created.
    pub branch: String,
    /// Where the branch begins; HEAD's commit if nothing is given.
    pub start: Option<ObjectId>,
}

/// A worktree of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worktree {
    /// Its folder.
    pub path: PathBuf,
    /// Its branch without `refs/heads/`, unless HEAD is detached.
    pub branch: Option<String>,
    /// HEAD's commit, unless there is none.
    pub head: Option<ObjectId>,
    /// Whether it is the main one, which is never removed.
    pub is_main: bool,
    /// Why it is locked, if it is; perhaps without a reason.
    pub lock: Option<String>,
}

/// What a request for a worktree led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorktreeOutcome {
    /// The worktree.
    pub worktree: Worktree,
    /// Whether it was created now.
    pub is_new: bool,
    /// What git reported although the worktree is complete, as of a hook that failed.
    pub problem: Option<String>,
}

/// The work in a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorktreeWork {
    /// How many commits its branch has beyond the one at which it began.
    pub commits: u64,
    /// How many of its files are changed, staged or untracked; `None` if git's configuration is not the
    /// trusted one, since filters would run.
    pub uncommitted: Option<u64>,
    /// How many of those that were to be left out are not committed.
    pub left_out: u64,
    /// What git ignores there, relative to its top: no commit has it, and `git worktree remove` deletes it.
    pub ignored: BTreeSet<RepoPath>,
    /// Whether the folder still is that worktree, and on its branch.
    pub is_on_branch: bool,
}

/// What becomes of ignored files, such as build products, when a worktree is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredFiles {
    /// They are worth keeping: with any of them the worktree is not removed.
    Keep,
    /// They may be deleted.
    Delete,
}

impl Repository {
    /// Creates a worktree with a branch of its own, unless it exists on this branch.
    ///
    /// The user's hooks and filters run as with `git worktree add`, confined if [`RunGit`](crate::RunGit) confines. What a killed attempt left is
    /// removed first.
    ///
    /// # Errors
    ///
    /// Fails if the configuration is not the trusted one, the branch exists at another commit, the
    /// folder is in use, or git fails.
    pub fn create_worktree(&self, request: &WorktreeRequest) -> Result<WorktreeOutcome> {
        let _lock = self.lock()?;
        self.verify_configuration(&self.workspace)?;
        let path = to_real_path(&request.path)?;
        self.refuse_links("worktrees")?;
        self.refuse_links(&format!("refs/heads/{}", request.branch))?;
        let _alone = self.lock_worktrees()?;
        self.remove_incomplete(&path)?;
        if let Some(worktree) = self.find_worktree(&path)? {
            if worktree.lock.as_deref() == Some(INITIALIZING) && !worktree.is_main {
                let command = self.worktree_git().args(["remove", "--force", "--force"]);
                command.arg(&path).read(&*self.git)?;
            } else if worktree.branch.as_ref() == Some(&request.branch) && path.is_dir() {
                return Ok(WorktreeOutcome { worktree, is_new: false, problem: None });
            } else {
                let branch = worktree.branch.unwrap_or_else(|| "no branch".to_owned());
                let reason = format!("the worktree that is there, on {branch}");
                return Err(GitError::WorktreeInUse { path, reason });
            }
        }
        let reference = format!("refs/heads/{}", request.branch);
        self.user_git().args(["check-ref-format", &reference]).read(&*self.git)?;
        let start = match &request.start {
            Some(start) => Some(start.clone()),
            None => self.resolve("HEAD^{commit}")?,
        };
        self.remove_left_lock(&reference)?;
        let existing = self.resolve(&reference)?;
        let command = self.confined_worktree_git(&path)?.args(["add", "--quiet"]);
        let command = match (&existing, &start) {
            // A killed attempt created the branch and nothing else.
            (Some(existing), Some(start)) if existing == start => {
                command.arg(&path).arg(&request.branch)
            }
            (Some(_), _) => return Err(GitError::BranchExists(request.branch.clone())),
            (None, start) => command
                .args(["--no-track", "-b", &request.branch])
                .arg(&path)
                .args(start.as_ref().map(ObjectId::as_str)),
        };
        let failure = command.read_if(&*self.git)?.err();
        let is_complete = |worktree: &Worktree| {
            worktree.lock.is_none() && worktree.branch.as_ref() == Some(&request.branch)
        };
        // Git leaves a worktree whose hook failed as it is.
        match (self.find_worktree(&path)?.filter(is_complete), failure) {
            (Some(worktree), failure) => {
                let problem = failure.map(|(exit, message)| describe_hook(exit, &message));
                Ok(WorktreeOutcome { worktree, is_new: true, problem })
            }
            (None, Some((exit, message))) => {
                Err(GitError::Failed { command: "worktree".to_owned(), exit, message })
            }
            (None, None) => Err(GitError::NoWorktree(path)),
        }
    }

    /// Waits until no other orchestrator creates a worktree of this repository: until git has written all files
    /// of one, it fails to list any. Nothing is written for that.
    pub(crate) fn lock_worktrees(&self) -> Result<File> {
        let fail = |error| GitError::io(&self.common_dir, error);
        let folder = File::open(&self.common_dir).map_err(fail)?;
        match folder.lock() {
            // Not every file system has locks.
            Err(error) if error.kind() != ErrorKind::Unsupported => Err(fail(error)),
            _ => Ok(folder),
        }
    }

    /// Removes what a killed git has left of this worktree before it had written all of its own files: it could
    /// list no worktree any more.
    pub(crate) fn remove_incomplete(&self, path: &Path) -> Result<()> {
        let Some(name) = path.file_name() else { return Ok(()) };
        let folder = self.common_dir.join("worktrees").join(name);
        let is_empty = |name: &str| {
            fs::read(folder.join(name)).is_ok_and(|text| text.trim_ascii().is_empty())
                || !folder.join(name).exists()
        };
        if !folder.is_dir() || !["HEAD", "commondir", "gitdir"].into_iter().any(is_empty) {
            return Ok(());
        }
        fs::remove_dir_all(&folder).map_err(|error| GitError::io(&folder, error))?;
        // Nothing but the file that leads there was written.
        let names = fs::read_dir(path).into_iter().flatten().flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        if names == [OsStr::new(".git")] { remove_if_there(&path.join(".git")) } else { Ok(()) }
    }

    /// Runs the hook of a checkout again that a killed attempt may not have finished. Returns what it
    /// reported if it failed.
    ///
    /// # Errors
    ///
    /// Fails if the configuration is not the trusted one, or git cannot be started.
    pub fn repeat_checkout_hook(&self, worktree: &Worktree) -> Result<Option<String>> {
        let _lock = self.lock()?;
        self.verify_configuration(&self.workspace)?;
        let Some(head) = &worktree.head else { return Ok(None) };
        let none = "0".repeat(head.as_str().len());
        let command = GitCommand::new(&worktree.path, &self.outer).for_hooks(&self.outer);
        let command = command.confined_to(self.worktree_folders(&worktree.path));
        let command = command.args(["hook", "run", "--ignore-missing", "post-checkout", "--"]);
        let failure = command.args([&none, head.as_str(), "1"]).read_if(&*self.git)?.err();
        Ok(failure.map(|(exit, message)| describe_hook(exit, &message)))
    }

    /// Returns the paths of a worktree's submodules, which are not checked out in a new one.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn list_submodules(&self, worktree: &Path) -> Result<Vec<RepoPath>> {
        list_submodules(worktree, &self.outer, &*self.git)
    }

    /// Returns how much work is in a worktree with this branch, which began at `base`. The files `without`,
    /// relative to its top, are no work.
    ///
    /// # Errors
    ///
    /// Fails if git does, as for a branch or a folder that is gone.
    pub fn find_worktree_work(
        &self,
        path: &Path,
        (branch, base): (&str, &str),
        without: &[PathBuf],
    ) -> Result<WorktreeWork> {
        let _lock = self.lock()?;
        let range = format!("{base}..refs/heads/{branch}");
        let commits = self.user_git().args(["rev-list", "--count", &range, "--"]);
        let commits = commits.read_text(&*self.git)?.parse().map_err(|_| {
            GitError::UnexpectedOutput { command: "rev-list".to_owned(), expected: "a number" }
        })?;
        let is_on_branch = self.is_on_branch(path, branch)?;
        let ignored = list_ignored(GitCommand::new(path, &self.outer), &*self.git)?;
        let (uncommitted, left_out) = (None, 0);
        let mut work = WorktreeWork { commits, uncommitted, left_out, ignored, is_on_branch };
        match self.verify_configuration(path) {
            Ok(()) => {}
            Err(GitError::ConfigurationChanged(_)) => return Ok(work),
            Err(error) => return Err(error),
        }
        let files = list_uncommitted(path, &self.outer, &*self.git)?;
        let is_left_out = |file: &&RepoPath| without.iter().any(|path| path == file.as_path());
        let left_out = files.iter().filter(is_left_out).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        work.uncommitted = Some(count(files.len().saturating_sub(left_out)));
        work.left_out = count(left_out);
        Ok(work)
    }

    /// Returns whether git, run in this folder, would work on this branch of this repository.
    fn is_on_branch(&self, path: &Path, branch: &str) -> Result<bool> {
        let link = path.join(".git");
        let of_folder = fs::read_to_string(&link).unwrap_or_default();
        let folder = Path::new(of_folder.trim_start_matches("gitdir:").trim());
        let back = fs::read_to_string(folder.join("gitdir")).unwrap_or_default();
        let is_ours = folder.parent() == Some(self.common_dir.join("worktrees").as_path())
            && Path::new(back.trim()) == link;
        let worktree = self.find_worktree(path)?;
        Ok(is_ours && worktree.is_some_and(|found| found.branch.as_deref() == Some(branch)))
    }

    /// Returns the repository's worktrees, the main one first.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn list_worktrees(&self) -> Result<Vec<Worktree>> {
        let output = self.user_git().args(["worktree", "list", "--porcelain", "-z"]);
        Ok(parse_worktrees(&output.read(&*self.git)?))
    }

    /// Removes a worktree if nothing would be lost; its branch stays. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// Fails, with nothing removed, if it has uncommitted or untracked files, commits on no branch,
    /// something in progress, a lock, or, if they are to be kept, ignored files; if it is the main
    /// worktree or none of this repository; or if the configuration is not the trusted one.
    pub fn remove_worktree(&self, path: &Path, ignored: IgnoredFiles) -> Result<bool> {
        let _lock = self.lock()?;
        let path = to_real_path(path)?;
        let Some(worktree) = self.find_worktree(&path)? else {
            return if path.exists() { Err(GitError::NoWorktree(path)) } else { Ok(false) };
        };
        if worktree.is_main {
            return Err(GitError::NoWorktree(path));
        }
        if path.exists() {
            self.verify_configuration(&path)?;
            if let Some(reason) = self.find_loss(&worktree, ignored)? {
                return Err(GitError::WorktreeInUse { path, reason });
            }
        }
        self.worktree_git().arg("remove").arg(&path).read(&*self.git)?;
        Ok(true)
    }

    /// Returns what would be lost with a worktree, if anything would.
    fn find_loss(&self, worktree: &Worktree, ignored: IgnoredFiles) -> Result<Option<String>> {
        let begin = || GitCommand::new(&worktree.path, &self.outer);
        if let Some(reason) = &worktree.lock {
            return Ok(Some(format!("a lock: {reason}")));
        }
        let git_dir = begin().args(["rev-parse", "--absolute-git-dir"]).read_path(&*self.git)?;
        if let Some(operation) = find_operation(&git_dir) {
            return Ok(Some(operation.to_string()));
        }
        let ignored = match ignored {
            IgnoredFiles::Keep => "--ignored=matching",
            IgnoredFiles::Delete => "--ignored=no",
        };
        let status = begin().args(["status", "--porcelain=v1", "-z", "--untracked-files=all"]);
        let status = status.args(["--ignore-submodules=all", ignored]).read(&*self.git)?;
        if let Some(first) = split_nul(&status).next() {
            let path = RepoPath::from_bytes(first.get(3..).unwrap_or_default());
            return Ok(Some(format!("{path}, which is not committed")));
        }
        if let (None, Some(head)) = (&worktree.branch, &worktree.head) {
            let command = self.user_git().args(["for-each-ref", "--count=1", "--contains"]);
            if command.arg(head.as_str()).read(&*self.git)?.is_empty() {
                return Ok(Some(format!("commit {head}, which is on no branch")));
            }
        }
        Ok(None)
    }

    fn find_worktree(&self, path: &Path) -> Result<Option<Worktree>> {
        Ok(self.list_worktrees()?.into_iter().find(|worktree| worktree.path == path))
    }

    /// Returns what hooks and filters of a new worktree may write.
    pub(crate) fn worktree_folders(&self, path: &Path) -> Vec<PathBuf> {
        vec![path.to_owned(), self.git_dir.clone(), self.common_dir.clone()]
    }

    /// Begins a command that runs the hooks and filters of a new worktree.
    pub(crate) fn confined_worktree_git(&self, path: &Path) -> Result<GitCommand> {
        if self.git.confines() {
            // What is not there yet cannot be opened to it.
            fs::create_dir_all(path).map_err(|error| GitError::io(path, error))?;
        }
        Ok(self.worktree_git().confined_to(self.worktree_folders(path)))
    }

    pub(crate) fn worktree_git(&self) -> GitCommand {
        let command = self.user_git().for_hooks(&self.outer);
        // The reason of git's own lock is compared.
        command.env("LC_ALL", "C").env("LANGUAGE", "C").arg("worktree")
    }
}

fn describe_hook(exit: GitExit, message: &str) -> String {
    format!("git worktree: exited with {exit}, as after a failing post-checkout hook: {message}")
}

/// Returns a path as git lists it: absolute, with links in its parent resolved.
fn to_real_path(path: &Path) -> Result<PathBuf> {
    let fail = |error| GitError::io(path, error);
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    let absolute = std::path::absolute(path).map_err(fail)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Ok(absolute);
    };
    Ok(parent.canonicalize().map_or_else(|_| absolute.clone(), |parent| parent.join(name)))
}

/// Reads records of lines that end with NUL, each record ended by an empty line.
fn parse_worktrees(output: &[u8]) -> Vec<Worktree> {
    let mut worktrees: Vec<Worktree> = Vec::new();
    for line in split_nul(output) {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        let (key, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let text = || String::from_utf8_lossy(value).into_owned();
        if key == b"worktree" {
            worktrees.push(Worktree {
                path: PathBuf::from(OsStr::from_bytes(value)),
                branch: None,
                head: None,
                is_main: worktrees.is_empty(),
                lock: None,
            });
            continue;
        }
        let Some(worktree) = worktrees.last_mut() else { continue };
        match key {
            b"HEAD" => worktree.head = parse_object_id(&text(), "worktree").ok(),
            b"branch" => {
                worktree.branch = text().strip_prefix("refs/heads/").map(str::to_owned);
            }
            b"locked" => worktree.lock = Some(text()),
            _ => {}
        }
    }
    worktrees
}
