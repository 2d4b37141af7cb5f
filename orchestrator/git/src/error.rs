//! What can go wrong, one variant per cause.

use std::io;
use std::path::PathBuf;

use ralph_orchestrator_text::escape;

use crate::object_id::ObjectId;
use crate::operation::Operation;
use crate::path::RepoPath;
use crate::run_git::GitExit;

/// Says why something could not be done with the repository. Nothing of the user's was changed,
/// unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// `git` could not be started, or was ended after its timeout.
    #[error("git {command}: {source}")]
    Run {
        /// The subcommand.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// `git` exited unsuccessfully.
    #[error("git {command}: exited with {exit}: {message}")]
    Failed {
        /// The subcommand.
        command: String,
        /// How it ended.
        exit: GitExit,
        /// The start of its standard error, with control characters escaped.
        message: String,
    },
    /// `git` printed what this crate cannot read.
    #[error("git {command}: unexpected output: expected {expected}; check the version of git")]
    UnexpectedOutput {
        /// The subcommand.
        command: String,
        /// What was expected.
        expected: &'static str,
    },
    /// `git` printed more than the orchestrator accepts.
    #[error("git {command}: printed more than {limit} bytes; make the workspace smaller")]
    OutputTooLarge {
        /// The subcommand.
        command: String,
        /// The bound, in bytes.
        limit: usize,
    },
    /// Git is too old.
    #[error("git {0}: expected version 2.36 or later; update git")]
    TooOld(String),
    /// Git is too old to merge without a working tree.
    #[error("{found}: expected version {major}.{minor} or later for merges; update git")]
    TooOldToMerge {
        /// What it says of itself.
        found: String,
        /// The oldest version.
        major: u32,
        /// The oldest version.
        minor: u32,
    },
    /// The workspace is in no repository.
    #[error(
        "{}: expected a git repository; run `git init`, or set [git] commit = \"off\"",
        .0.display()
    )]
    NotARepository(PathBuf),
    /// The repository has no commit yet.
    #[error("{}: expected a repository with commits; there is none on the current branch", .0.display())]
    EmptyRepository(PathBuf),
    /// The repository has no working tree.
    #[error("{}: a bare repository has no files to work on; use a clone of it", .0.display())]
    Bare(PathBuf),
    /// Git does not trust the repository's owner.
    #[error("{}: git does not trust this repository's owner: {message}", .path.display())]
    UnsafeOwnership {
        /// The workspace.
        path: PathBuf,
        /// What git says, with its remedy.
        message: String,
    },
    /// The workspace belongs to another repository than when the private folder was made.
    #[error(
        "{}: expected the repository at {expected}; git finds {found} now; \
         restore it, or start a new run; where a sandbox is used, accept it before with `ralph-orchestrator trust`",
        .workspace.display()
    )]
    RepositoryChanged {
        /// The workspace.
        workspace: PathBuf,
        /// Git directory, common directory, top level and objects at the beginning.
        expected: RepoPath,
        /// The same now.
        found: RepoPath,
    },
    /// The repository of a linked worktree is not where the worktree has it.
    #[error(
        "{}: its repository is not at {} any more; if the checkout was moved, `git worktree repair {}` there, and \
         `run` goes on",
        .worktree.display(), .git_dir.display(), .worktree.display()
    )]
    RepositoryGone {
        /// The worktree.
        worktree: PathBuf,
        /// Its git directory.
        git_dir: PathBuf,
    },
    /// The worktree of the run was removed: nothing is written to another one instead.
    #[error(
        "the worktree {} was removed; `git worktree add {} BRANCH` brings it back",
        .0.display(), .0.display()
    )]
    WorktreeRemoved(PathBuf),
    /// Something in the git directory is a link, and what is written there would be written elsewhere.
    #[error("{}: expected no link, since git would write where it leads; put the folder back", .0.display())]
    LinkInRepository(PathBuf),
    /// What git would read is a pipe or a device.
    #[error("{}: expected a regular file, since git would wait for this pipe or device; remove it", .0.display())]
    SpecialInRepository(PathBuf),
    /// The user's own configuration has commits signed by a program that an agent can write.
    #[error(
        "{key} of your git configuration: {} is where an agent can write, so it signs nothing; name a program elsewhere",
        .program.display()
    )]
    SigningProgram {
        /// The key.
        key: String,
        /// The program.
        program: PathBuf,
    },
    /// The private folder lies where the agent works.
    #[error("{}: expected a folder outside the workspace", .0.display())]
    PrivateFolderInWorkspace(PathBuf),
    /// Something else is in the place of the private folder.
    #[error("{}: something else is in the place of this folder of the run, and nothing is written there; an agent can have done that: remove it", .0.display())]
    PrivateFolderReplaced(PathBuf),
    /// Another operation uses the private folder.
    #[error("{}: another git operation of this run is active; try again when it has ended", .0.display())]
    Busy(PathBuf),
    /// A file of the orchestrator's own or the workspace could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file in the private folder is damaged.
    #[error("{}: {source}; delete it, and the next start writes it again", .path.display())]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line and column.
        source: serde_json::Error,
    },
    /// A run's id cannot be part of a ref's name.
    #[error("run {0:?}: expected 1 to 64 ASCII letters, digits, `-` or `_`")]
    InvalidRun(String),
    /// There is no such checkpoint.
    #[error("there is no checkpoint {0} of this run; `rollback --list` shows those that exist")]
    NoCheckpoint(String),
    /// Objects of a checkpoint have another content than when it was made.
    #[error(
        "checkpoint {checkpoint}: its objects in the repository were changed since it was made: {message}; \
         `git fsck` names all; nothing was restored"
    )]
    ForgedObjects {
        /// The checkpoint.
        checkpoint: String,
        /// Which.
        message: String,
    },
    /// A rebase, merge or the like is not finished.
    #[error("{0} is in progress; finish or abort it first")]
    InProgress(Operation),
    /// HEAD is not on a branch.
    #[error("HEAD is detached: a commit would be on no branch; check out a branch first")]
    DetachedHead,
    /// Another branch is checked out than when the iteration began.
    #[error(
        "branch {found} is checked out, but the iteration began on {expected}; \
         check that out again, or commit by hand"
    )]
    BranchChanged {
        /// The branch when the iteration began.
        expected: String,
        /// The branch now.
        found: String,
    },
    /// The policy protects the current branch.
    #[error("branch {0}: the policy forbids commits on it; check out another branch")]
    ProtectedBranch(String),
    /// The user's index is locked.
    #[error("{}: the index is locked; end the other git process, or delete the file if none runs", .0.display())]
    IndexLocked(PathBuf),
    /// There are conflicts in the index.
    #[error("{path}: unmerged (and {others} more); resolve the conflicts first")]
    Unmerged {
        /// The first such path.
        path: RepoPath,
        /// How many more there are.
        others: usize,
    },
    /// The trusted configuration was never recorded.
    #[error("git's configuration and hooks were not recorded when the run began; start a new run")]
    ConfigurationNotRecorded,
    /// Git's configuration or hooks changed since the run began.
    #[error(
        "git's configuration changed since agents began to work here: {}; nothing was executed; review the changes, then commit by hand or \
         start a new run; where a sandbox is used, accept them before with `ralph-orchestrator trust`",
        .0.join(", ")
    )]
    ConfigurationChanged(Vec<String>),
    /// The state at an iteration's start was never recorded.
    #[error("iteration {0}: its start was not recorded; no commit is possible for it")]
    IterationNotRecorded(u64),
    /// A hook, the signature or git itself did not let the commit pass.
    #[error("git commit: exited with {exit}, the index is as it was: {message}")]
    CommitFailed {
        /// How it ended.
        exit: GitExit,
        /// The start of what hooks and git printed, with control characters escaped.
        message: String,
    },
    /// The rollback would lose what no checkpoint has.
    #[error(
        "{first}: its content is in no checkpoint (and {others} more); make a checkpoint first"
    )]
    Unsaved {
        /// The first such path.
        first: RepoPath,
        /// How many more there are.
        others: usize,
    },
    /// The rollback would overwrite what checkpoints leave out.
    #[error(
        "{first}: exists, but no checkpoint may have it (ignored, secret, too large or special), \
         and {others} more; move it away first"
    )]
    WouldOverwrite {
        /// The first such path.
        first: RepoPath,
        /// How many more there are.
        others: usize,
    },
    /// A branch's name exists already, at another commit.
    #[error("branch {0}: exists already at another commit; choose another name")]
    BranchExists(String),
    /// HEAD's branch has no commit, so there is nothing that a worktree could begin with.
    #[error("branch {0}: has no commit that a worktree could begin with; commit something first")]
    NoCommit(String),
    /// A branch has the name that other branches begin with.
    #[error(
        "branch {branch}: as long as it exists, no branch can be called {branch}/…; \
         rename it with `git branch -m {branch} NAME`"
    )]
    BranchInTheWay {
        /// The branch.
        branch: String,
    },
    /// HEAD's commit does not have the workspace.
    #[error(
        "{}: is not part of commit {commit}, so a worktree would not have it; commit something in it",
        .path.display()
    )]
    NotInCommit {
        /// The workspace.
        path: PathBuf,
        /// HEAD's commit.
        commit: ObjectId,
    },
    /// A path is no worktree of this repository.
    #[error("{}: no linked worktree of this repository", .0.display())]
    NoWorktree(PathBuf),
    /// Removing a worktree would lose something.
    #[error("{}: not removed, since this would be lost: {reason}", .path.display())]
    WorktreeInUse {
        /// The worktree.
        path: PathBuf,
        /// What would be lost.
        reason: String,
    },
}

/// What the functions of this crate return.
pub type Result<T> = std::result::Result<T, GitError>;

impl GitError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: source.into() }
    }
}

/// Makes printed text harmless: lossy UTF-8, trimmed, bounded, with all but newlines and tabs escaped that must not be shown.
pub(crate) fn to_message(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    escape(&text.trim().chars().take(4000).collect::<String>())
}
