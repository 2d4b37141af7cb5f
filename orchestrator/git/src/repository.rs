//! The user's repository: found, described, and the base of everything else.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checkpoint_name::CheckpointName;
use crate::command::{GitCommand, parse_object_id};
use crate::error::{GitError, Result, to_message};
use crate::file_policy::FilePolicy;
use crate::object_id::ObjectId;
use crate::operation::Operation;
use crate::path::{RepoPath, split_nul};
use crate::private::{PrivateFolder, PrivateLock};
use crate::run_git::{GitExit, RunGit};
use crate::special::refuse_special_files;

const IDENTITY: &str = "repository.json";

/// How long the program that signs a commit may take, unless somebody says otherwise.
const SIGNING_TIMEOUT: Duration = Duration::from_secs(60);

/// A repository with a workspace in it.
#[derive(Clone)]
pub struct Repository {
    pub(crate) git: Arc<dyn RunGit>,
    pub(crate) outer: BTreeMap<OsString, OsString>,
    pub(crate) workspace: PathBuf,
    pub(crate) top_level: PathBuf,
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) objects: PathBuf,
    pub(crate) private: PrivateFolder,
    pub(crate) file_policy: FilePolicy,
    /// How long the program that signs a commit may take.
    pub(crate) signing_timeout: Duration,
    /// The checkpoints of the run that is read, where somebody else has recorded them.
    pub(crate) recorded: Option<BTreeMap<CheckpointName, ObjectId>>,
    is_shallow: bool,
    /// The linked worktree for which the private folder was made, if it was removed and this is its repository: what it has
    /// can be read.
    removed: Option<PathBuf>,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository")
            .field("workspace", &self.workspace)
            .field("git_dir", &self.git_dir)
            .finish_non_exhaustive()
    }
}

/// Where HEAD points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Head {
    /// A branch without a commit.
    Unborn {
        /// The branch's name, without `refs/heads/`.
        branch: String,
    },
    /// A branch.
    Branch {
        /// The branch's name, without `refs/heads/`.
        name: String,
        /// Its newest commit.
        commit: ObjectId,
    },
    /// A commit, and no branch.
    Detached {
        /// The commit.
        commit: ObjectId,
    },
}

impl Head {
    /// Returns the branch's name without `refs/heads/`, unless HEAD is detached.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Unborn { branch } => Some(branch),
            Self::Branch { name, .. } => Some(name),
            Self::Detached { .. } => None,
        }
    }

    /// Returns the commit, unless there is none yet.
    pub fn commit(&self) -> Option<&ObjectId> {
        match self {
            Self::Unborn { .. } => None,
            Self::Branch { commit, .. } | Self::Detached { commit } => Some(commit),
        }
    }
}

/// What is known about the repository at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepositoryState {
    /// Where HEAD points.
    pub head: Head,
    /// What is in progress.
    pub operation: Option<Operation>,
    /// Whether the index has submodules, in the whole repository.
    pub has_submodules: bool,
    /// Whether only a part of the tree is checked out.
    pub is_sparse: bool,
    /// Whether the history is cut off.
    pub is_shallow: bool,
    /// Whether the workspace is in a linked worktree (`git worktree add`).
    pub is_linked_worktree: bool,
    /// Whether `index.lock` exists: another git works, or was killed.
    pub is_index_locked: bool,
}

/// Where git finds the repository: git directory, common directory, top level and objects, a line each.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    location: RepoPath,
    #[serde(flatten)]
    folders: RepositoryFolders,
}

/// What tells the folders of a repository from others, wherever they are moved together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepositoryFolders {
    /// How they lie to each other and to the workspace. Earlier versions recorded neither this nor the rest.
    #[serde(default)]
    arrangement: Option<RepoPath>,
    /// Their devices and inodes.
    #[serde(default)]
    identities: Vec<(u64, u64)>,
}

impl RepositoryFolders {
    /// Whether these are the recorded ones, which were moved with the workspace.
    pub(crate) fn are_moved_from(&self, recorded: &Self) -> bool {
        recorded.arrangement.is_some() && self == recorded
    }

    /// Whether the common directory and the objects are the recorded ones.
    fn shares_repository(&self, recorded: &Self) -> bool {
        let shared = |folders: &Self| match folders.identities.as_slice() {
            [_, common, _, objects] => Some([*common, *objects]),
            _ => None,
        };
        shared(self).is_some() && shared(self) == shared(recorded)
    }
}

impl Identity {
    /// Whether it is at this place. Earlier versions did not record where the objects are.
    fn is_at(&self, recorded: &Self) -> bool {
        let rest = self.location.as_bytes().strip_prefix(recorded.location.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"\n"))
    }

    /// Returns the top of the recorded place, if it is a linked worktree of this repository that was removed.
    fn find_removed(&self, recorded: &Self) -> Option<PathBuf> {
        let [now, before] = [self, recorded].map(|identity| {
            let paths = identity.location.as_bytes().split(|byte| *byte == b'\n');
            paths.map(|path| Path::new(OsStr::from_bytes(path))).collect::<Vec<_>>()
        });
        let ([_, common, _, objects], [its_git_dir, its_common, top, its_objects]) =
            (now.as_slice(), before.as_slice())
        else {
            return None;
        };
        // The checkout may have been moved since.
        let is_of_this = its_git_dir != its_common
            && ((common, objects) == (its_common, its_objects)
                || self.folders.shares_repository(&recorded.folders));
        (is_of_this && !top.exists()).then(|| top.to_path_buf())
    }
}

/// The oldest version of git whose commands and variables are all known to this crate.
const OLDEST: (u32, u32) = (2, 36);

impl Repository {
    /// Finds the repository of a workspace, as git does, with this process's environment.
    ///
    /// `private_folder` is a folder of the orchestrator's own for this run, outside the workspace; it is
    /// created if it is missing. It remembers which repository this is: an agent that puts another one
    /// in its place does not redirect what follows.
    ///
    /// # Errors
    ///
    /// Fails if git is older than 2.36, there is no repository, git distrusts its owner, it is bare, it is another one than
    /// before, or `private_folder` is inside the workspace or used by another operation.
    pub fn discover(workspace: &Path, private_folder: &Path, git: Arc<dyn RunGit>) -> Result<Self> {
        let outer = std::env::vars_os().collect();
        Self::discover_with(workspace, private_folder, git, outer)
    }

    /// Finds the repository of a workspace, with this environment in place of the process's own.
    ///
    /// # Errors
    ///
    /// See [`Repository::discover`].
    pub fn discover_with(
        workspace: &Path,
        private_folder: &Path,
        git: Arc<dyn RunGit>,
        environment: BTreeMap<OsString, OsString>,
    ) -> Result<Self> {
        let workspace = workspace.canonicalize().map_err(|error| GitError::io(workspace, error))?;
        let WorkTree { format, is_shallow } = inspect(&workspace, &*git, &environment)?;
        let begin = || GitCommand::new(&workspace, &environment).arg("rev-parse");
        let path_of = |words: &[&str]| {
            begin().arg("--path-format=absolute").args(words.iter().copied()).read_path(&*git)
        };
        let top_level = path_of(&["--show-toplevel"])?;
        let git_dir = path_of(&["--git-dir"])?;
        let common_dir = path_of(&["--git-common-dir"])?;
        let objects = path_of(&["--git-path", "objects"])?;
        let private = PrivateFolder::create(private_folder, &workspace)?;
        let mut repository = Self {
            git,
            outer: environment,
            workspace,
            top_level,
            git_dir,
            common_dir,
            objects,
            private,
            file_policy: FilePolicy::default(),
            signing_timeout: SIGNING_TIMEOUT,
            recorded: None,
            is_shallow,
            removed: None,
        };
        repository.removed = repository.prepare_private(&format)?;
        Ok(repository)
    }

    /// Checks whether a workspace has a repository that can be used, and writes nothing.
    ///
    /// # Errors
    ///
    /// As [`Repository::discover`], as far as that concerns the repository.
    pub fn check(
        workspace: &Path,
        git: &dyn RunGit,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<()> {
        let workspace = workspace.canonicalize().map_err(|error| GitError::io(workspace, error))?;
        inspect(&workspace, git, environment).map(drop)
    }

    /// Sets which files checkpoints and commits take.
    #[must_use]
    pub fn with_file_policy(mut self, policy: FilePolicy) -> Self {
        self.file_policy = policy;
        self
    }

    /// Sets how long the program that signs a commit may take, such as while it waits for a passphrase.
    #[must_use]
    pub fn with_signing_timeout(mut self, timeout: Duration) -> Self {
        self.signing_timeout = timeout;
        self
    }

    /// Returns the workspace's real path.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the topmost folder of the working tree, which holds the workspace.
    pub fn top_level(&self) -> &Path {
        &self.top_level
    }

    /// Returns the repository's git directory, that of the linked worktree if it is one.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Prepares the private folder. Returns the worktree for which it was made, if that was removed.
    fn prepare_private(&self, format: &str) -> Result<Option<PathBuf>> {
        let _lock = self.private.lock()?;
        self.verify_location()?;
        let location = RepoPath::from_bytes(self.expected_location());
        let identity = Identity { location, folders: self.folders() };
        let mut removed = None;
        match self.private.read_record::<Identity>(IDENTITY)? {
            Some(expected) if !identity.is_at(&expected) => {
                if identity.folders.are_moved_from(&expected.folders) {
                    self.private.write_record(IDENTITY, &identity)?;
                } else {
                    removed = identity.find_removed(&expected);
                    if removed.is_none() {
                        return Err(self.describe_change(&expected.location, &identity.location));
                    }
                }
            }
            Some(_) => {}
            None => self.private.write_record(IDENTITY, &identity)?,
        }
        let git_dir = self.private.git_dir();
        if !git_dir.join("HEAD").is_file() || !git_dir.join("refs").is_dir() {
            let home = self.private.home();
            GitCommand::new(&self.workspace, &self.outer)
                .in_private(&git_dir, &home, &git_dir.join("objects"))
                .unset("GIT_WORK_TREE")
                .args(["init", "--quiet", "--bare", "--template="])
                .arg(format!("--object-format={format}"))
                .arg(&git_dir)
                .read(&*self.git)?;
        }
        self.private.write_attributes()?;
        Ok(removed)
    }

    /// Locks the private folder as [`lock`](Self::lock) does, to write files or commits.
    pub(crate) fn lock_to_write(&self) -> Result<PrivateLock> {
        match &self.removed {
            Some(worktree) => Err(GitError::WorktreeRemoved(worktree.clone())),
            None => self.lock(),
        }
    }

    /// Locks the private folder, and makes sure that the repository is the one that was found: an
    /// agent may have put another one in its place.
    pub(crate) fn lock(&self) -> Result<PrivateLock> {
        let lock = self.private.lock()?;
        if self.git_dir != self.common_dir && !self.git_dir.exists() {
            let (worktree, git_dir) = (self.top_level.clone(), self.git_dir.clone());
            return Err(GitError::RepositoryGone { worktree, git_dir });
        }
        refuse_special_files(&self.workspace)?;
        self.verify_location()?;
        self.refuse_linked_objects()?;
        Ok(lock)
    }

    fn verify_location(&self) -> Result<()> {
        let command = self.user_git().args(["rev-parse", "--path-format=absolute"]);
        let command = command.args(["--git-dir", "--git-common-dir", "--show-toplevel"]);
        let command = command.args(["--git-path", "objects"]);
        let found = command.read(&*self.git)?;
        let found = found.strip_suffix(b"\n").unwrap_or(&found);
        let expected = self.expected_location();
        if found == expected {
            return Ok(());
        }
        let (expected, found) = (RepoPath::from_bytes(expected), RepoPath::from_bytes(found));
        Err(self.describe_change(&expected, &found))
    }

    pub(crate) fn expected_location(&self) -> Vec<u8> {
        let paths = [&self.git_dir, &self.common_dir, &self.top_level, &self.objects];
        paths.map(|path| path.as_os_str().as_bytes()).join(&b'\n')
    }

    /// Returns what is the same after the repository was moved with its workspace.
    pub(crate) fn folders(&self) -> RepositoryFolders {
        let all = [&self.git_dir, &self.common_dir, &self.top_level, &self.objects];
        let identity = |path: &&PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.dev(), found.ino()))
        };
        let identities = all.iter().map(identity).collect::<Option<Vec<_>>>();
        // A linked worktree is moved without its repository, and the repository without it.
        let place = |path: &Path| {
            let bases = [("common", &self.common_dir), ("top", &self.top_level)];
            let inside = bases
                .into_iter()
                .find_map(|(name, base)| Some(Path::new(name).join(path.strip_prefix(base).ok()?)));
            inside.unwrap_or_else(|| path.to_owned())
        };
        let common = match self.common_dir.strip_prefix(&self.top_level) {
            Ok(inside) => inside,
            Err(_) => Path::new("elsewhere"),
        };
        let rest = [place(&self.git_dir), place(&self.objects), place(&self.workspace)];
        let places = rest.iter().map(PathBuf::as_path).chain([common]);
        let places: Vec<&[u8]> = places.map(|path| path.as_os_str().as_bytes()).collect();
        let arrangement = RepoPath::from_bytes(places.join(&b'\n'));
        RepositoryFolders {
            arrangement: identities.is_some().then_some(arrangement),
            identities: identities.unwrap_or_default(),
        }
    }

    pub(crate) fn describe_change(&self, expected: &RepoPath, found: &RepoPath) -> GitError {
        GitError::RepositoryChanged {
            workspace: self.workspace.clone(),
            expected: on_one_line(expected),
            found: on_one_line(found),
        }
    }

    /// Begins a command in the user's repository.
    pub(crate) fn user_git(&self) -> GitCommand {
        GitCommand::new(&self.workspace, &self.outer)
    }

    /// Begins a command that runs programs which the repository names, such as hooks and filters.
    pub(crate) fn programs_git(&self, folder: &Path) -> GitCommand {
        GitCommand::new(folder, &self.outer).confined_to(self.own_folders())
    }

    /// The folders in which git keeps what it knows of this repository.
    pub(crate) fn own_folders(&self) -> Vec<PathBuf> {
        vec![self.git_dir.clone(), self.common_dir.clone()]
    }

    /// Whether a path leads to where an agent may write: into the working tree, or to what git keeps.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        let real = self.workspace.join(path).canonicalize();
        let real = real.unwrap_or_else(|_| self.workspace.join(path));
        let mut folders = [&self.top_level, &self.git_dir, &self.common_dir].into_iter();
        folders.any(|folder| real.starts_with(folder))
    }

    /// Where the index of a real commit is prepared: where the commit can reach it.
    pub(crate) fn commit_index(&self) -> PathBuf {
        match self.git.confines() {
            true => self.git_dir.join("ralph-orchestrator.index"),
            false => self.private.commit_index(),
        }
    }

    /// Begins a command in the private git directory, on the user's files and objects.
    pub(crate) fn private_git(&self) -> GitCommand {
        self.user_git().in_private(&self.private.git_dir(), &self.private.home(), &self.objects)
    }

    /// Returns the repository's state now.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn state(&self) -> Result<RepositoryState> {
        let index = GitCommand::new(&self.top_level, &self.outer).args(["ls-files", "-s", "-z"]);
        let index = index.read(&*self.git)?;
        let sparse = self.user_git().args(["config", "--type=bool", "core.sparseCheckout"]);
        Ok(RepositoryState {
            head: self.head()?,
            operation: self.operation(),
            has_submodules: split_nul(&index).any(|entry| entry.starts_with(b"160000 ")),
            is_sparse: sparse.read_optional(&*self.git)?.is_some_and(|value| value == b"true"),
            is_shallow: self.is_shallow,
            is_linked_worktree: self.git_dir != self.common_dir,
            is_index_locked: self.index_lock().is_some(),
        })
    }

    pub(crate) fn head(&self) -> Result<Head> {
        Self::read_head(&|| self.user_git(), &*self.git)
    }

    /// Returns where HEAD points, by commands that begin like this.
    pub(crate) fn read_head(begin: &dyn Fn() -> GitCommand, git: &dyn RunGit) -> Result<Head> {
        let branch = begin().args(["symbolic-ref", "-q", "HEAD"]).read_optional(git)?;
        let commit = begin().args(["rev-parse", "-q", "--verify", "HEAD^{commit}"]);
        let commit = commit.read_optional(git)?;
        let parse = |id: Vec<u8>| parse_object_id(&String::from_utf8_lossy(&id), "rev-parse");
        let commit = commit.map(parse).transpose()?;
        let name = branch.map(|bytes| {
            let name = String::from_utf8_lossy(&bytes).into_owned();
            name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()
        });
        match (name, commit) {
            (Some(branch), None) => Ok(Head::Unborn { branch }),
            (Some(name), Some(commit)) => Ok(Head::Branch { name, commit }),
            (None, Some(commit)) => Ok(Head::Detached { commit }),
            (None, None) => Err(GitError::UnexpectedOutput {
                command: "symbolic-ref".to_owned(),
                expected: "a branch or a commit",
            }),
        }
    }

    /// Returns the object that a name stands for in the user's repository, if there is one.
    pub(crate) fn resolve(&self, name: &str) -> Result<Option<ObjectId>> {
        let command = self.user_git().args(["rev-parse", "-q", "--verify"]);
        let found = command.arg(name).read_optional(&*self.git)?;
        found.map(|id| parse_object_id(&String::from_utf8_lossy(&id), "rev-parse")).transpose()
    }

    pub(crate) fn operation(&self) -> Option<Operation> {
        find_operation(&self.git_dir)
    }

    /// Returns the path of `index.lock`, if it exists.
    pub(crate) fn index_lock(&self) -> Option<PathBuf> {
        let lock = self.git_dir.join("index.lock");
        lock.symlink_metadata().is_ok().then_some(lock)
    }
}

fn on_one_line(location: &RepoPath) -> RepoPath {
    let paths: Vec<&[u8]> = location.as_bytes().split(|byte| *byte == b'\n').collect();
    RepoPath::from_bytes(paths.join(b", ".as_slice()))
}

/// Returns what is in progress in a worktree with this git directory.
pub(crate) fn find_operation(git_dir: &Path) -> Option<Operation> {
    let has = |name: &str| git_dir.join(name).symlink_metadata().is_ok();
    if has("rebase-merge") {
        Some(Operation::Rebase)
    } else if has("rebase-apply") {
        let is_mailbox = has("rebase-apply/applying");
        Some(if is_mailbox { Operation::ApplyMailbox } else { Operation::Rebase })
    } else if has("MERGE_HEAD") {
        Some(Operation::Merge)
    } else if has("CHERRY_PICK_HEAD") {
        Some(Operation::CherryPick)
    } else if has("REVERT_HEAD") {
        Some(Operation::Revert)
    } else {
        has("BISECT_LOG").then_some(Operation::Bisect)
    }
}

/// What is known of a working tree.
pub(crate) struct WorkTree {
    format: String,
    is_shallow: bool,
}

/// Fails unless git is new enough and the workspace is in a working tree.
pub(crate) fn inspect(
    workspace: &Path,
    git: &dyn RunGit,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<WorkTree> {
    check_git(workspace, git, environment)?;
    let facts = GitCommand::new(workspace, environment).arg("rev-parse").args([
        "--is-bare-repository",
        "--is-inside-work-tree",
        "--is-shallow-repository",
        "--show-object-format",
    ]);
    let facts = facts.read_if(git)?.map_err(|error| explain(workspace, error))?;
    let facts = String::from_utf8_lossy(&facts).into_owned();
    let mut facts = facts.lines();
    let (is_bare, is_inside) = (facts.next() == Some("true"), facts.next() == Some("true"));
    let is_shallow = facts.next() == Some("true");
    let format = facts.next().unwrap_or("sha1").to_owned();
    if is_bare {
        return Err(GitError::Bare(workspace.to_path_buf()));
    }
    if !is_inside {
        return Err(GitError::NotARepository(workspace.to_path_buf()));
    }
    Ok(WorkTree { format, is_shallow })
}

/// Fails where git would do more than it is asked to.
pub(crate) fn check_git(
    workspace: &Path,
    git: &dyn RunGit,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<()> {
    refuse_special_files(workspace)?;
    check_version(&GitCommand::new(workspace, environment).arg("version").read_text(git)?)
}

pub(crate) fn explain(workspace: &Path, (exit, message): (GitExit, String)) -> GitError {
    let path = workspace.to_path_buf();
    if message.contains("dubious ownership") {
        GitError::UnsafeOwnership { path, message }
    } else if message.contains("not a git repository") {
        GitError::NotARepository(path)
    } else {
        GitError::Failed { command: "rev-parse".to_owned(), exit, message }
    }
}

/// Fails if git is too old: it would silently ignore what keeps programs from running.
fn check_version(text: &str) -> Result<()> {
    let number = text.strip_prefix("git version ").unwrap_or(text);
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(GitError::TooOld(to_message(number.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_git_2_36_and_later() {
        for text in
            ["git version 2.36.0", "git version 2.47.3 (Apple Git-1)", "git version 3.0.rc1"]
        {
            assert!(check_version(text).is_ok(), "{text}");
        }
        for text in ["git version 2.35.9", "git version 1.99", "", "git version two"] {
            assert!(matches!(check_version(text), Err(GitError::TooOld(_))), "{text}");
        }
    }
}
