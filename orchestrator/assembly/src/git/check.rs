//! Whether git can be used as the configuration asks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::CommitMode;
use ralph_orchestrator_git::Repository;
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use super::process::{SupervisedGit, blocking, environment};
use super::run_place::check_worktree;
use crate::context::Context;
use crate::error::CommandError;

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
    result.map_err(|problem| CommandError::at_key(loaded, &["git", "commit"], &problem))
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
