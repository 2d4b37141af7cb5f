//! What plugins run from where an agent can write: accepted as a configuration is, by its content.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{PluginConfig, SandboxMode};
use ralph_orchestrator_safe_fs::{normalize_lexically, real_path};
use ralph_orchestrator_supervisor::find_program;

use super::{FileVersion, JudgedFiles, Trust};
use crate::context::Context;
use crate::error::CommandError;

/// Begins the text that stands for what a plugin runs.
const MARK: &str = "# what a plugin runs";

impl Trust {
    /// Judges what the plugins of a configuration run, as far as an agent can write it and no digest in the
    /// configuration says what it has to be.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub(crate) fn judge_plugins(&self, context: &Context) -> Result<JudgedFiles, CommandError> {
        let mut judged = JudgedFiles::default();
        let places = context.agent_places();
        let is_free = context.loaded.config.sandbox.mode == SandboxMode::Off;
        let plugins = context.loaded.config.plugins.iter();
        for (name, plugin) in plugins.filter(|(_, plugin)| plugin.digest.is_none()) {
            for (path, is_own) in files_of(plugin, context) {
                let (lexical, real) = (normalize_lexically(&path), real_path(&path));
                let is_inside =
                    |place: &PathBuf| lexical.starts_with(place) || real.starts_with(place);
                // Without a sandbox an agent can write everywhere, but programs of the system are updated by others.
                let is_agents = (is_free && is_own) || places.iter().any(is_inside);
                if !is_agents {
                    continue;
                }
                // What cannot be read is reported by whoever starts it.
                if let Ok(digest) = digest_of(&path) {
                    let text = format!("{MARK}\nplugins.{name} = \"{digest}\"\n");
                    judged.add(self.judge(&path, text)?);
                }
            }
        }
        Ok(judged)
    }
}

/// Returns the key of the plugin whose program or script this stands for; `None` for a file of configuration.
pub(super) fn key_of(version: &FileVersion) -> Option<&str> {
    let (key, _) = version.text.strip_prefix(MARK)?.trim_start().split_once(" = ")?;
    Some(key)
}

/// Returns the library of a plugin, or its program and the words of its command that are files; and of each whether it
/// is the user's own, not one of the system's programs.
fn files_of(plugin: &PluginConfig, context: &Context) -> Vec<(PathBuf, bool)> {
    let folder = context.loaded.dir();
    let path = context.vars.get("PATH").map(String::as_str).unwrap_or_default();
    let program = plugin.command.first().and_then(|name| {
        let is_own = name.contains('/') && !name.starts_with('/');
        Some((find_program(name, path, folder).ok()?, is_own))
    });
    let words = plugin.command.iter().skip(1).map(|word| folder.join(word));
    let own = plugin.library.clone().into_iter().chain(words.filter(|word| word.is_file()));
    own.map(|path| (path, true)).chain(program).collect()
}

fn digest_of(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}
