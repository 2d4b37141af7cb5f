//! `[plugins.NAME]`: agents, detectors and validators by others.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::strict::{self, StrictEnum};

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
    /// Where the code of a library runs: "process", in one of its own, or "none", in this one. "process"
    /// if it is not given.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "isolation")]
    #[schemars(with = "PluginIsolation")]
    pub isolation: Option<PluginIsolation>,
    /// The BLAKE3 digest that its content must have, as `plugin list` shows it: any other content is
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("pattern" = "^[0-9a-fA-F]{64}$"))]
    pub digest: Option<String>,
}

/// Where the code of a library runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PluginIsolation {
    /// In a process of its own.
    Process,
    /// In this process.
    None,
}

impl StrictEnum for PluginIsolation {
    const WORDS: &'static [&'static str] = &["process", "none"];
    const VALUES: &'static [Self] = &[Self::Process, Self::None];
}

fn isolation<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PluginIsolation>, D::Error> {
    strict::enumeration(deserializer).map(Some)
}
