//! The user's git repository: who starts git, and what of it the engine and the commands see.

mod accept;
mod backlog;
mod create;
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

pub(crate) use accept::accept_repository;
pub(crate) use backlog::BacklogCommits;
pub(crate) use create::create_repository;
pub(crate) use process::{Confinement, SupervisedGit};
pub(crate) use run_place::{RunPlace, check_worktree};
pub(crate) use saving::GitRepositories;
pub(crate) use stored::{open_stored, open_stored_run};
pub(crate) use worktree::{
    WorktreeView, enter_existing, enter_here, enter_recorded, report_worktree,
};
pub(crate) use worktree_maker::worktrees_dir;

/// Fails if the configuration asks for git and it cannot be used in the workspace.
pub(crate) async fn check(context: &Context) -> Result<(), CommandError> {
    let (loaded, workspace) = (&context.loaded, &context.loaded.config.run.workspace);
    if loaded.config.git.worktree && workspace.exists() {
        return check_worktree(context).await.map(drop);
    }
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
fn environment(vars: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    vars.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Runs what starts git on a thread of its own, as [`SupervisedGit`] requires.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CommandError> {
    tokio::task::spawn_blocking(work).await.map_err(CommandError::internal)
}
