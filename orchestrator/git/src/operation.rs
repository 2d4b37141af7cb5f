//! What of git's is begun and not finished.

use std::fmt;

use serde::Serialize;

/// What the user, or an agent, has begun and not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `git rebase`.
    Rebase,
    /// `git am`.
    ApplyMailbox,
    /// `git merge`.
    Merge,
    /// `git cherry-pick`.
    CherryPick,
    /// `git revert`.
    Revert,
    /// `git bisect`.
    Bisect,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rebase => "a rebase",
            Self::ApplyMailbox => "`git am`",
            Self::Merge => "a merge",
            Self::CherryPick => "a cherry-pick",
            Self::Revert => "a revert",
            Self::Bisect => "a bisect",
        })
    }
}
