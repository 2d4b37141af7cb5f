//! The commands that prepare a place: the workspace before each iteration's agent, and a checkout before its checks.

use std::sync::Arc;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_contract::{BuildContext, BuildError};
use serde_json::Value;

use crate::registry::Registry;
use crate::workspace_setup::WorkspaceSetup;

/// Builds the command that prepares the workspace; `None` if there is none.
///
/// # Errors
/// It cannot be run, with its place.
pub fn build_workspace_setup(
    loaded: &LoadedConfig,
    registry: &Registry,
    context: &BuildContext,
) -> Result<Option<Arc<dyn WorkspaceSetup>>, ConfigErrors> {
    build_setup(loaded, "run", &loaded.config.run.setup, (registry, context))
}

/// Builds the command that is the value of `setup` in this table of a configuration; `None` if there is none.
///
/// # Errors
/// The command cannot be run, with its place.
pub(super) fn build_setup(
    loaded: &LoadedConfig,
    table: &str,
    words: &[String],
    (registry, context): (&Registry, &BuildContext),
) -> Result<Option<Arc<dyn WorkspaceSetup>>, ConfigErrors> {
    if words.is_empty() {
        return Ok(None);
    }
    let at = [table, "setup"].map(str::to_owned);
    let Some(build) = &registry.setup else {
        let message = "this program was built without a way to run it; remove the key";
        return Err(loaded.error_at(&at, None, message).into());
    };
    let built = build(Value::from(words.to_vec()), context);
    built.map(|setup| Some(Arc::from(setup))).map_err(|BuildError { key, message, .. }| {
        let key: Vec<String> = at.into_iter().chain(key).collect();
        loaded.error_at(&key, None, &message).into()
    })
}
