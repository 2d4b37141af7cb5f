//! The user's git repository: who starts git, where runs work, what is stored, and what of it the engine sees.

mod accept;
mod backlog;
mod create;
mod moved_worktree;
mod process;
mod run_place;
mod saving;
mod stored;
mod worktree;
mod worktree_maker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{CommitMode, LoadedConfig};
use ralph_orchestrator_git::Repository;
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use crate::context::Context;
use crate::error::CommandError;

pub use accept::accept_repository;
pub use backlog::BacklogCommits;
pub use create::create_repository;
pub use moved_worktree::{
    find_disconnection, is_moved_to, locate_worktrees, read_git_dir, repair_command, worktrees_dir,
};
pub use process::{Confinement, SupervisedGit, kept_folder};
pub use run_place::{PlaceRequest, RunPlace, check_worktree, verify_worktree};
pub use saving::GitRepositories;
pub use stored::{open_stored, open_stored_run};
pub use worktree::{WorktreeView, enter_existing, enter_for_task, enter_here, find_of};

/// Fails if the configuration asks for git and it cannot be used in the workspace.
pub async fn check(context: &Context) -> Result<(), CommandError> {
    let config = &context.loaded.config;
    if config.git.worktree && config.run.workspace.exists() {
        return check_worktree(context).await.map(drop);
    }
    check_commits(context).await
}

/// Fails if the configuration asks for commits and git cannot be used in the workspace.
pub async fn check_commits(context: &Context) -> Result<(), CommandError> {
    let (loaded, workspace) = (&context.loaded, &context.loaded.config.run.workspace);
    // A workspace that is made from its template is checked when it is there.
    if loaded.config.git.commit == CommitMode::Off || !workspace.exists() {
        return Ok(());
    }
    let (vars, workspace) = (context.vars.clone(), workspace.clone());
    let (places, runtime) = (context.agent_places(), Handle::current());
    let result = blocking(move || find_problem(&workspace, &vars, &places, runtime)).await?;
    result.map_err(|problem| located(loaded, &problem))
}

/// Returns the error at the key that asks for git.
fn located(loaded: &LoadedConfig, problem: &str) -> CommandError {
    let key = ["git", "commit"].map(str::to_owned);
    ralph_orchestrator_config::ConfigErrors::from(loaded.error_at(&key, None, problem)).into()
}

/// Returns why git cannot be used in the workspace, if it cannot. Blocks.
fn find_problem(
    workspace: &Path,
    vars: &BTreeMap<String, String>,
    places: &[PathBuf],
    runtime: Handle,
) -> Result<(), String> {
    let git = SupervisedGit::find(Supervisor::this_binary(), vars, places, runtime)?;
    Repository::check(workspace, &git, &environment(vars)).map_err(|error| error.to_string())
}

/// Returns the environment of git.
pub fn environment(vars: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    vars.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Runs what starts git on a thread of its own, as [`SupervisedGit`] requires.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CommandError> {
    tokio::task::spawn_blocking(work).await.map_err(CommandError::internal)
}
