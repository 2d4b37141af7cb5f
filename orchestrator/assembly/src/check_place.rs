//! Whether checks can be run where `[validation]` has them run.

use ralph_orchestrator_config::CheckPlace;
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_supervisor::Supervisor;

use crate::context::Context;
use crate::error::CommandError;

/// Returns, for people, that a checkout can be had; `None` where the checks run in the workspace.
///
/// # Errors
/// There can be no checkout, at the key that asks for it.
pub async fn verify(context: &Context) -> Result<Option<String>, CommandError> {
    let loaded = &context.loaded;
    let workspace = &loaded.config.run.workspace;
    if loaded.config.validation.place != CheckPlace::Checkout || !workspace.exists() {
        return Ok(None);
    }
    // With the state of the run, out of the agent's reach.
    let storage = states_dir(&context.state_home());
    Disk::default().create_dir(&storage)?;
    let workspace = workspace.canonicalize()?;
    match Supervisor::this_binary().check_view_support(&storage, &workspace).await {
        Ok(()) => Ok(Some("the checks run in a checkout of the work".to_owned())),
        Err(error) => {
            let problem = format!("there can be no checkout here: {error}");
            Err(CommandError::at_key(loaded, &["validation", "where"], &problem))
        }
    }
}
