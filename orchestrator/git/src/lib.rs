//! Stores work in the user's git repository and compares it: checkpoints under refs of its own, real commits,
//! differences, rollback, worktrees and merges. Copies the history of a repository up to a commit.
//! Must not know runs, or how processes are supervised.
//!
//! It uses the program `git`, started by whoever implements [`RunGit`], and knows nothing of runs but
//! their ids. It pushes and fetches only a branch that is named to it, never by force, never changes another branch than those, never stashes
//! or resets, and never touches ignored or secret-looking files.
//!
//! An agent can write the repository's configuration. What that means for each program which the
//! configuration may name:
//!
//! | configuration | checkpoints, differences, rollback | real commits and worktrees |
//! |---|---|---|
//! | `filter.*`, attributes, line ends | a private git directory has no filters; bytes are stored as they are | run, if unchanged since the run began |
//! | hooks (folder, `core.hooksPath`, `hook.*`) | switched off for the one ref that is written | run, never bypassed, if unchanged since the run began |
//! | `gpg.*`, signing | checkpoints are never signed | as configured, if unchanged since the run began; where programs are confined, as the user's own files say, never the repository's |
//! | `core.fsmonitor` | off | off |
//! | `diff.*` drivers, `textconv`, external diff | unknown to the private git directory, and off | not used |
//! | `core.sshCommand`, remote helpers, lazy fetches, `credential.*` | no network command; all protocols forbidden | no network command; a partial clone's filters and checkout may fetch |
//! | `core.pager`, `core.editor`, `core.askPass` | off, never asked | off, never asked |
//! | `core.worktree`, `.git` replaced | the repository is compared with the one found first; files outside the workspace are not in reach | the same |
//! | `gc.*`, `maintenance.*` | automatic runs are off | automatic runs are off |
//! | submodules' own configuration | submodules are not entered | not entered |
//!
//! Unchanged means compared with [`Repository::trust_configuration`], or with what earlier runs began with
//! ([`Repository::trust_as_before`]); if not, nothing runs and
//! [`GitError::ConfigurationChanged`] names what changed. What a hook executes in turn, such as the
//! project's own tests, is not compared, nor is a script in the workspace that the configuration names. So an
//! implementation of [`RunGit`] can confine the commands that run hooks and filters, as it confines the agent
//! ([`GitRequest::confined_to`]); a signature is made afterwards, where the user's keys are.
//!
//! Functions block until git has exited. An agent that may write to the repository can delete checkpoints, and forge
//! refs: whoever has recorded the commits gives them to [`Repository::with_recorded_checkpoints`]. What a rollback
//! writes stays inside the workspace. A `git` that is killed
//! while it writes the user's index leaves `index.lock` there, which is reported and never removed; the lock of a ref of
//! the run's own is removed by the next start.

mod changes;
mod checkpoint;
mod checkpoint_name;
mod command;
mod commit;
mod commit_file;
mod diff;
mod error;
mod export;
mod file_policy;
mod files;
mod history;
mod history_reader;
mod ignored;
mod inert_message;
mod left_lock;
mod left_out;
mod links;
mod merge;
mod object_id;
mod operation;
mod path;
mod path_digests;
mod private;
mod push;
mod repository;
mod rollback;
mod run_git;
mod secrets;
mod settings;
mod sign;
mod signing_time;
mod snapshot;
mod special;
mod subjects;
mod system_git;
mod trust;
mod uncommitted;
mod worktree;
mod worktree_start;

pub use changes::IterationStart;
pub use checkpoint::{Checkpoint, CheckpointOutcome};
pub use checkpoint_name::{CheckpointName, RunRef};
pub use commit::{CommitOutcome, CommitPolicy};
pub use diff::{Diff, DiffEnd, FileChange, FileStatus};
pub use error::{GitError, Result};
pub use file_policy::FilePolicy;
pub use history::{HistorySecret, SecretSign};
pub use history_reader::{EntryKind, HistoryReader, ListedCommit, TreeChange};
pub use inert_message::make_inert;
pub use merge::{BuiltMerge, MergeRequest};
pub use object_id::ObjectId;
pub use operation::Operation;
pub use path::RepoPath;
pub use path_digests::PathDigests;
pub use push::Remote;
pub use repository::{Head, Repository, RepositoryState};
pub use rollback::{RollbackGuard, RollbackOutcome};
pub use run_git::{GitExit, GitOutput, GitRequest, MAX_STDERR, RunGit};
pub use snapshot::{SkipReason, SkippedFile};
pub use system_git::SystemGit;
pub use uncommitted::{ChangedPaths, UncommittedFile};
pub use worktree::{IgnoredFiles, Worktree, WorktreeOutcome, WorktreeRequest, WorktreeWork};
pub use worktree_start::WorktreeStart;
