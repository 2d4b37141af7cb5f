//! What plugins run from where an agent can write: accepted as a configuration is, by its content.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_config::{LoadedConfig, PluginConfig, SandboxMode};
use ralph_orchestrator_safe_fs::leads_into;
use ralph_orchestrator_supervisor::find_program;
use ralph_orchestrator_workspace::ProgramDigests;

use super::{FileVersion, JudgedFiles, Trust};
use crate::agent_places::agent_places;
use crate::error::CommandError;

/// Begins the text that stands for what a plugin runs.
const MARK: &str = "# what a plugin runs";

impl Trust {
    /// Judges what the plugins of a configuration run, as far as an agent can write it and no digest in the
    /// configuration says what it has to be.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub fn judge_plugins(
        &self,
        loaded: &LoadedConfig,
        vars: &BTreeMap<String, String>,
    ) -> Result<JudgedFiles, CommandError> {
        let mut judged = JudgedFiles::default();
        let mut plugins =
            loaded.config.plugins.iter().filter(|(_, plugin)| plugin.digest.is_none()).peekable();
        if plugins.peek().is_none() {
            return Ok(judged);
        }
        let mut digests = ProgramDigests::default();
        let places = agent_places(loaded, vars, &self.store);
        let is_free = loaded.config.sandbox.mode == SandboxMode::Off;
        for (name, plugin) in plugins {
            for (path, is_own) in files_of(plugin, loaded, vars) {
                // Without a sandbox an agent can write everywhere, but programs of the system are updated by others.
                let is_agents = (is_free && is_own)
                    || leads_into(&path, &places)
                    || self.store.known_folders_around(&path).next().is_some();
                if !is_agents {
                    continue;
                }
                // What cannot be read is reported by whoever starts it.
                if path.is_file() {
                    let digest = digests.of(&path);
                    let text = format!("{MARK}\nplugins.{name} = \"{digest}\"\n");
                    judged.add(self.judge(&path, text)?);
                }
            }
        }
        Ok(judged)
    }
}

/// Returns the key of the plugin whose program or script this stands for; `None` for a file of configuration.
pub(crate) fn key_of(version: &FileVersion) -> Option<&str> {
    let (key, _) = version.text.strip_prefix(MARK)?.trim_start().split_once(" = ")?;
    Some(key)
}

/// Returns the library of a plugin, or its program and the words of its command that are files; and of each whether it
/// is the user's own, not one of the system's programs.
fn files_of(
    plugin: &PluginConfig,
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
) -> Vec<(PathBuf, bool)> {
    let folder = loaded.dir();
    let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
    let program =
        plugin.command.first().filter(|name| name.starts_with('/') || !name.contains('/'));
    let program = program.and_then(|name| find_program(name, path, folder).ok());
    let program = program.map(|path| (path, false));
    plugin.own_files(folder).map(|path| (path, true)).chain(program).collect()
}
