//! `[plugins.NAME]`: agents, detectors and validators by others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::Problems;
use super::resolve::{absolute, is_name};

/// Hexadecimal digits of a BLAKE3 digest.
const DIGEST: usize = 64;

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

/// Checks each, and makes the paths of libraries absolute.
pub(super) fn check(
    plugins: &mut BTreeMap<String, PluginConfig>,
    dir: &Path,
    problems: &mut Problems<'_>,
) {
    for (name, plugin) in plugins {
        let at = ["plugins", name.as_str()];
        let below = |key: &'static str| ["plugins", name.as_str(), key];
        if !is_name(name) || name.contains('/') {
            problems.at(&at, "a plugin needs a name of one line, without `/`");
        }
        if let Some(library) = &plugin.library {
            plugin.library = Some(absolute(library, dir, &below("library"), problems));
        }
        match (&plugin.library, plugin.command.first()) {
            (None, None) if !problems.is_damaged(&at) => problems
                .at(&at, "expected `library`, a file, or `command`, a program and its arguments"),
            (Some(_), Some(_)) => problems.at(
                &below("command"),
                "there is a `library` already; only one of the two can be given",
            ),
            (None, Some(program)) if program.is_empty() => {
                problems.at(&below("command"), "expected a program, found \"\"");
            }
            _ => {}
        }
        let is_digest = |digest: &String| {
            digest.len() == DIGEST && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if plugin.digest.as_ref().is_some_and(|digest| !is_digest(digest)) {
            let message = format!("expected a BLAKE3 digest of {DIGEST} hexadecimal digits");
            problems.at(&below("digest"), message);
        }
    }
}
