//! Whether checks can be run in a checkout of the work.

use std::path::PathBuf;

use ralph_orchestrator_checkout::CheckoutError;
use ralph_orchestrator_config::CheckPlace;
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_store::{Disk, StateError};
use ralph_orchestrator_supervisor::Supervisor;

use crate::context::Context;
use crate::error::CommandError;

/// Where the checks of a run that begins now are run.
pub enum FoundPlace {
    /// In a checkout of the work.
    Checkout,
    /// In the workspace, though the configuration does not ask for it, and why.
    Workspace(String),
}

impl FoundPlace {
    /// Tries it; `None` if the configuration says that they are run in the workspace, or that is not there yet.
    ///
    /// # Errors
    /// There can be no checkout, at the key that asks for one.
    pub async fn find(context: &Context) -> Result<Option<Self>, CommandError> {
        let loaded = &context.loaded;
        let workspace = &loaded.config.run.workspace;
        let place = loaded.config.validation.place;
        if place == Some(CheckPlace::Workspace) || !workspace.exists() {
            return Ok(None);
        }
        match find_obstacle(context).await? {
            None => Ok(Some(Self::Checkout)),
            Some(error) => match place {
                Some(_) => {
                    let key = ["validation", "where"];
                    Err(CommandError::at_key(loaded, &key, &error.to_string()))
                }
                None => Ok(Some(Self::Workspace(error.to_string()))),
            },
        }
    }

    /// Refuses where there can be no checkout of the workspace, whatever the configuration says of it.
    ///
    /// # Errors
    /// There can be none.
    pub(crate) async fn require_checkout(context: &Context) -> Result<(), CommandError> {
        match find_obstacle(context).await? {
            None => Ok(()),
            Some(error) => Err(CommandError::unavailable(error)),
        }
    }
}

/// Returns why there can be no checkout of the workspace; `None` if there can be one.
async fn find_obstacle(context: &Context) -> Result<Option<CheckoutError>, CommandError> {
    let storage = storage(context)?;
    let workspace = context.loaded.config.run.workspace.canonicalize()?;
    let support = Supervisor::this_binary().check_view_support(&storage, &workspace).await;
    Ok(support.err().map(|error| CheckoutError::Unavailable { reason: error.to_string() }))
}

/// The folder for what checkouts are made of, with the states of all runs: out of the agent's reach.
pub(crate) fn storage(context: &Context) -> Result<PathBuf, StateError> {
    let storage = states_dir(&context.state_home());
    Disk::default().create_dir(&storage)?;
    Ok(storage)
}
