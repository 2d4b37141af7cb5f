//! The setup: the command that prepares the workspace before each iteration's agent.

use std::sync::Arc;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_contract::{BuildContext, BuildError};
use serde_json::Value;

use crate::registry::Registry;
use crate::workspace_setup::WorkspaceSetup;

/// Builds the setup of a configuration; `None` if it has none.
///
/// # Errors
/// The command cannot be run, with its place.
pub fn build_workspace_setup(
    loaded: &LoadedConfig,
    registry: &Registry,
    context: &BuildContext,
) -> Result<Option<Arc<dyn WorkspaceSetup>>, ConfigErrors> {
    let words = &loaded.config.run.setup;
    if words.is_empty() {
        return Ok(None);
    }
    let at = ["run", "setup"].map(str::to_owned);
    let Some(build) = &registry.setup else {
        let message = "this program was built without a way to run it; remove the key";
        return Err(loaded.error_at(&at, None, message).into());
    };
    let built = build(Value::from(words.clone()), context);
    built.map(|setup| Some(Arc::from(setup))).map_err(|BuildError { key, message, .. }| {
        let key: Vec<String> = at.into_iter().chain(key).collect();
        loaded.error_at(&key, None, &message).into()
    })
}
