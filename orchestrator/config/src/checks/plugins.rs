//! Checks of `[plugins.NAME]`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::checks::{is_name, make_absolute};
use crate::diagnostics::Diagnostics;
use crate::model::PluginConfig;

/// Hexadecimal digits of a BLAKE3 digest.
const DIGEST: usize = 64;

/// Checks each plugin, and makes the paths of libraries absolute.
pub(crate) fn check(
    plugins: &mut BTreeMap<String, PluginConfig>,
    dir: &Path,
    diagnostics: &mut Diagnostics<'_>,
) {
    for (name, plugin) in plugins {
        let at = ["plugins", name.as_str()];
        let below = |key: &'static str| ["plugins", name.as_str(), key];
        if !is_name(name) || name.contains('/') {
            diagnostics.add(&at, "a plugin needs a name of one line, without `/`");
        }
        if let Some(library) = &plugin.library {
            plugin.library = Some(make_absolute(library, dir, &below("library"), diagnostics));
        }
        match (&plugin.library, plugin.command.first()) {
            (None, None) if !diagnostics.is_damaged(&at) => diagnostics
                .add(&at, "expected `library`, a file, or `command`, a program and its arguments"),
            (Some(_), Some(_)) => diagnostics.add(
                &below("command"),
                "there is a `library` already; only one of the two can be given",
            ),
            (None, Some(program)) if program.is_empty() => {
                diagnostics.add(&below("command"), "expected a program, found \"\"");
            }
            (None, Some(_)) if plugin.isolation.is_some() => diagnostics.add(
                &below("isolation"),
                "a `command` always runs in a process of its own; only a `library` can be told",
            ),
            _ => {}
        }
        let is_digest = |digest: &String| {
            digest.len() == DIGEST && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if plugin.digest.as_ref().is_some_and(|digest| !is_digest(digest)) {
            let message = format!("expected a BLAKE3 digest of {DIGEST} hexadecimal digits");
            diagnostics.add(&below("digest"), message);
        }
    }
}
