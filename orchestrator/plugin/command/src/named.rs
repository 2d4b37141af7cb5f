//! Plugins that are named as in `ralph.toml`.

use std::path::Path;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_config::PluginConfig;

/// Returns the name, unless the argument is a library's path. A folder may have the name of a plugin.
pub(crate) fn name(plugin: &Path) -> Option<&str> {
    plugin.to_str().filter(|name| !name.contains(['/', '.']) && !plugin.is_file())
}

/// Adds what the name stands for to an error of the configuration.
pub(crate) fn hint(error: CommandError, name: &str) -> CommandError {
    error.hinted(format!("`{name}` names a plugin of ralph.toml; or give the path of a library"))
}

/// Returns the plugin's table.
///
/// # Errors
/// There is none.
pub(crate) fn table(context: &Context, name: &str) -> Result<PluginConfig, CommandError> {
    context.loaded.config.plugins.get(name).cloned().ok_or_else(|| unknown(context, name))
}

/// Returns the error that the configuration has no such plugin.
pub(crate) fn unknown(context: &Context, name: &str) -> CommandError {
    CommandError::user(format!("{} has no [plugins.{name}]", context.file.display()))
        .hinted("name one, or the file of a library")
}
