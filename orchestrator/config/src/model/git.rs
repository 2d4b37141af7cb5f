//! What is stored in the user's git repository.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units;
use crate::strict::strict_enum;

/// What is stored in the git repository of the workspace. Nothing by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Git {
    /// "checkpoint": after each iteration the workspace's files, under refs/ralph, without touching
    /// branches, index or files. "iteration": also a commit on the current branch of what the iteration
    /// changed. "handoff": that commit only after an iteration whose context got full.
    pub commit: CommitMode,
    /// The run works in a git worktree of its own, on a new branch `ralph/…` that begins at HEAD's commit:
    /// your checkout is never touched. What is not committed there is not in the worktree, but for the
    /// prompt and the backlog, which are copied. It is never merged and never removed by itself.
    pub worktree: bool,
    /// What follows the completion of a run, or of the work on a backlog: "pull-request" pushes the branch of the worktree to its
    /// remote, never by force, and opens a draft pull request, by `gh` or `glab`. "nothing" by default.
    pub on_complete: OnComplete,
    /// How long the program that signs a commit may take: nobody may be there to enter a passphrase or to touch a key. Then
    /// there is no commit, and the next one takes the work.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema")]
    pub timeout: Duration,
}

impl Default for Git {
    fn default() -> Self {
        Self {
            commit: CommitMode::Off,
            worktree: false,
            on_complete: OnComplete::Nothing,
            timeout: Duration::from_secs(60),
        }
    }
}

strict_enum! {
    /// What is stored in git between iterations.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum CommitMode {
        /// Nothing.
        #[default]
        Off = "off",
        /// A checkpoint after each iteration.
        Checkpoint = "checkpoint",
        /// A checkpoint and a commit after each iteration.
        Iteration = "iteration",
        /// A checkpoint after each iteration, and a commit after one whose context got full.
        Handoff = "handoff",
    }
}

strict_enum! {
    /// What follows a completion.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum OnComplete {
        /// Nothing.
        #[default]
        Nothing = "nothing",
        /// The branch is pushed, and a draft pull request opened.
        PullRequest = "pull-request",
    }
}
