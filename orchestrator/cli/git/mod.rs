//! The user's git repository as commands need it: where runs work, and what is stored.

mod accept;
mod backlog;
mod create;
mod run_place;
mod stored;
mod worktree;
mod worktree_maker;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::check_commits;

pub(crate) use accept::accept_repository;
pub(crate) use backlog::BacklogCommits;
pub(crate) use create::create_repository;
pub(crate) use run_place::{RunPlace, check_worktree, verify_worktree};
pub(crate) use stored::{open_stored, open_stored_run};
pub(crate) use worktree::{
    WorktreeView, enter_existing, enter_for_task, enter_here, find_of, report_worktree,
};

/// Fails if the configuration asks for git and it cannot be used in the workspace.
pub(crate) async fn check(context: &Context) -> Result<(), CommandError> {
    let config = &context.loaded.config;
    if config.git.worktree && config.run.workspace.exists() {
        return check_worktree(context).await.map(drop);
    }
    check_commits(context).await
}
