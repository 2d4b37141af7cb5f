//! `[plugins.NAME]`: agents, detectors, validators and formats of backlogs by others.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command_files::find_command_files;

/// A plugin: a library or a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["library"]}, {"required": ["command"]}]))]
pub struct PluginConfig {
    /// The library.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub library: Option<PathBuf>,
    /// The program and its arguments, instead of a library. It works in the folder of `ralph.toml`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub command: Vec<String>,
    /// The BLAKE3 digest that its content must have, as `plugin list` shows it: any other content is
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("pattern" = "^[0-9a-fA-F]{64}$"))]
    pub digest: Option<String>,
}

impl PluginConfig {
    /// Returns the library, or the files that the command names, seen from this folder; a program of the system is none of
    /// them.
    pub fn own_files(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        self.library.clone().into_iter().chain(find_command_files(&self.command, folder))
    }
}
