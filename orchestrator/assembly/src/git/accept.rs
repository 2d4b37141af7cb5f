//! What a person accepts of git's configuration and hooks, where agents worked in a sandbox.

use std::sync::Arc;

use ralph_orchestrator_git::Repository;
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use super::process::{SupervisedGit, blocking, environment, kept_folder};
use crate::block_on::block_on;
use crate::context::Context;
use crate::error::CommandError;

/// Accepts the workspace's repository as it is now, if runs have kept what it was. Returns what is another now.
///
/// # Errors
/// git is missing, or what it says.
pub fn accept_repository(context: &Context) -> Result<Vec<String>, CommandError> {
    let (kept, vars) = (kept_folder(context), context.vars.clone());
    let workspace = context.loaded.config.run.workspace.clone();
    let places = context.agent_places();
    if !Repository::is_kept(&kept, &workspace) {
        return Ok(Vec::new());
    }
    block_on(async move {
        let runtime = Handle::current();
        let accept = move || {
            let git = SupervisedGit::find(Supervisor::this_binary(), &vars, &places, runtime)
                .map_err(CommandError::unavailable)?;
            let private = tempfile::tempdir()?;
            let git = Arc::new(git);
            let folder = private.path().join("git");
            let found = Repository::discover_with(&workspace, &folder, git, environment(&vars))?;
            Ok(found.accept(&kept)?)
        };
        blocking(accept).await?
    })
}
