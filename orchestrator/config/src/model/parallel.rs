//! `[parallel]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many items of the backlog are worked on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parallel {
    /// The most items that are worked on at once, each in a git worktree and a run of its own. With 1, one after the other in one
    /// worktree or in the workspace. With more, `git.worktree` has to be true and `git.commit` "iteration".
    #[schemars(range(min = 1, max = 64))]
    pub max: u32,
}

impl Parallel {
    /// The largest `max`.
    pub const LARGEST: u32 = 64;
}

impl Default for Parallel {
    fn default() -> Self {
        Self { max: 1 }
    }
}
