//! `[plugins.NAME]`: agents, detectors, validators and formats of backlogs by others.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
