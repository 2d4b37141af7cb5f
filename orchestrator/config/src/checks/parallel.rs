//! Checks of `[parallel]`.

use crate::diagnostics::Diagnostics;
use crate::model::{CommitMode, Git, OnComplete, Parallel};

/// Refuses what keeps items from being worked on at once.
pub(super) fn check(
    parallel: Parallel,
    (has_backlog, git): (bool, &Git),
    diagnostics: &mut Diagnostics<'_>,
) {
    let path = ["parallel", "max"];
    if parallel.max == 0 || parallel.max > Parallel::LARGEST {
        let message =
            format!("expected a number from 1 to {}, found {}", Parallel::LARGEST, parallel.max);
        diagnostics.add(&path, message);
        return;
    }
    if parallel.max == 1 || diagnostics.is_broken(&["git"]) {
        return;
    }
    if !has_backlog {
        let message = "items of a backlog are worked on at once, and there is no [backlog]; add one, or remove `max`";
        diagnostics.add(&path, message);
    }
    if !git.worktree || git.commit != CommitMode::Iteration {
        let message = "items that are worked on at once are merged from git worktrees of their own; set \
                       `worktree = true` and `commit = \"iteration\"` in [git], or `max = 1`";
        diagnostics.add(&path, message);
    }
    if git.on_complete == OnComplete::PullRequest {
        let message = "a pull request is of runs on one branch, and these have several; set `max = 1`, or remove \
                       `on_complete` from [git]";
        diagnostics.add(&path, message);
    }
}
