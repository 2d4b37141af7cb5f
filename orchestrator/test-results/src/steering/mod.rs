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
use ralph_orchestrator_text::{escape_line, truncate};
use settings::Settings;

/// Characters of a key or value that a sentence shows.
const MAX_SHOWN: usize = 120;

/// A changed setting that steers what checks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringChange {
    /// The file, relative to the workspace.
    pub path: String,
    /// The key; none if the whole file counts.
    pub key: Option<String>,
    /// Its value on the base; of a whole file nothing, but that it was there.
    pub base: Option<String>,
    /// Its value now, likewise.
    pub now: Option<String>,
}

impl SteeringChange {
    /// Describes the change in a short sentence without a full stop.
    #[must_use]
    pub fn describe(&self) -> String {
        let path = escape_line(&self.path);
        let what = match &self.key {
            Some(key) => format!("{path}: `{}` steers the checks and was", show(key)),
            None => format!("{path} steers the checks and was"),
        };
        match (&self.key, &self.base, &self.now) {
            (Some(_), Some(base), Some(now)) => {
                format!("{what} changed from `{}` to `{}`", show(base), show(now))
            }
            (Some(_), None, Some(now)) => format!("{what} added: `{}`", show(now)),
            (Some(_), Some(base), None) => format!("{what} removed: `{}`", show(base)),
            (None, None, _) => format!("{what} added"),
            (None, Some(_), None) => format!("{what} removed"),
            _ => format!("{what} changed"),
        }
    }
}

/// Shows text of the agent's in a sentence.
fn show(text: &str) -> String {
    truncate(&escape_line(text), MAX_SHOWN)
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
    let change = |key, base, now| SteeringChange { path: path.to_owned(), key, base, now };
    let is_there = |bytes: Option<&[u8]>| bytes.map(|_| String::new());
    let settings = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => read_settings(kind, std::str::from_utf8(bytes).ok()?),
        None => Some(Settings::new()),
    };
    let (false, Some(old), Some(new)) =
        (matches!(kind, FileKind::Whole), settings(base), settings(now))
    else {
        return vec![change(None, is_there(base), is_there(now))];
    };
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let values = |key: &String| (old.get(key).cloned(), new.get(key).cloned());
    changed
        .map(|key| {
            let (base, now) = values(key);
            change(Some(key.clone()), base, now)
        })
        .collect()
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
