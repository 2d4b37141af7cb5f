//! Finds changed settings that steer what checks run.
//!
//! By key where a file has other uses, so that a new version, dependency or feature is none. A file that cannot be parsed,
//! before or after, counts as a whole. A `build.rs` steers nothing here: it is code of the work like any other, most
//! changes of one are honest, and what it switches off is missing among the tests that run. A `tsconfig.json` only
//! says how the code is compiled.

mod blocks;
mod file_kind;
mod ini;
mod maven;
mod settings;
mod structured;

use std::collections::BTreeSet;

use file_kind::FileKind;
use settings::Settings;

/// A changed setting that steers what checks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringChange {
    /// The file, relative to the workspace.
    pub path: String,
    /// The key; none if the whole file counts.
    pub key: Option<String>,
}

/// Returns whether a file may have settings that steer checks.
#[must_use]
pub fn is_steering_file(path: &str) -> bool {
    FileKind::of(path).is_some()
}

/// Finds what steers checks in the difference of a file's two versions; `None` where it does not exist.
#[must_use]
pub fn find_steering_changes(
    path: &str,
    base: Option<&[u8]>,
    now: Option<&[u8]>,
) -> Vec<SteeringChange> {
    let Some(kind) = FileKind::of(path).filter(|_| base != now) else { return Vec::new() };
    let change = |key| SteeringChange { path: path.to_owned(), key };
    let settings = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => read_settings(kind, std::str::from_utf8(bytes).ok()?),
        None => Some(Settings::new()),
    };
    let (false, Some(base), Some(now)) =
        (matches!(kind, FileKind::Whole), settings(base), settings(now))
    else {
        return vec![change(None)];
    };
    let keys: BTreeSet<&String> = base.keys().chain(now.keys()).collect();
    let changed = keys.into_iter().filter(|key| base.get(*key) != now.get(*key));
    changed.map(|key| change(Some(key.clone()))).collect()
}

/// Reads the settings that steer checks; none if the file cannot be parsed.
fn read_settings(kind: FileKind, text: &str) -> Option<Settings> {
    match kind {
        FileKind::Whole => None,
        FileKind::Toml(keys) => structured::read_toml(text, keys),
        FileKind::Json(keys) => structured::read_json(text, keys),
        FileKind::Ini(is_steering) => ini::read(text, is_steering),
        FileKind::Blocks(heads) => Some(blocks::read(text, heads)),
        FileKind::Maven => maven::read(text),
    }
}

#[cfg(test)]
mod tests;
