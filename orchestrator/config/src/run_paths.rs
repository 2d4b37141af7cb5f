//! Reads where the run of a configuration is, and the budget of its user, even if the configuration is wrong otherwise.

use std::path::{Path, PathBuf};

use figment::value::{Dict, Tag, Value};
use serde::Deserialize as _;

use crate::diagnostics::Diagnostics;
use crate::document::ConfigDocument;
use crate::loaded::LoadedConfig;
use crate::model::UserBudget;
use crate::provenance::Provenance;
use crate::{Sources, checks};

/// The keys that say where a run is and what it is about.
const KEYS: [(&str, &[&str]); 3] =
    [("run", &["workspace", "prompt", "prompt_text"]), ("state", &["dir"]), ("git", &["worktree"])];

/// Reads workspace, prompt and state directory only, and ignores mistakes elsewhere. `None` if they
/// cannot be read, as after a syntax error. The result must not be used to start a run.
#[must_use]
pub fn load_run_paths(sources: &Sources) -> Option<LoadedConfig> {
    let dir = sources.folder().ok()?;
    let layers = sources.layers();
    if layers.unread {
        return None;
    }
    let provenance = Provenance::new(layers.layers, sources.location());
    let mut values = Dict::new();
    for (table, keys) in KEYS {
        let value = |key: &&str| {
            let path = [table.to_owned(), (*key).to_owned()];
            Some(((*key).to_owned(), provenance.value(&path)?.clone()))
        };
        let found: Dict = keys.iter().filter_map(value).collect();
        values.insert(table.to_owned(), Value::Dict(Tag::Default, found));
    }
    load_values(sources, values, dir, provenance)
}

/// Returns the same for a run whose workspace and state directory are known, whatever the sources say.
#[must_use]
pub fn run_paths_at(sources: &Sources, workspace: &Path, state_dir: &Path) -> Option<LoadedConfig> {
    let dir = sources.folder().ok()?;
    let provenance = Provenance::new(Vec::new(), sources.location());
    let mut values = Dict::new();
    for (table, key, path) in [("run", "workspace", workspace), ("state", "dir", state_dir)] {
        let path = Value::from(path.to_str()?);
        let table_values = Dict::from([(key.to_owned(), path)]);
        values.insert(table.to_owned(), Value::Dict(Tag::Default, table_values));
    }
    load_values(sources, values, dir, provenance)
}

/// Reads `[budget]` only, and ignores mistakes elsewhere. `None` if it cannot be read.
#[must_use]
pub fn load_user_budget(sources: &Sources) -> Option<UserBudget> {
    let layers = sources.layers();
    if layers.unread {
        return None;
    }
    let provenance = Provenance::new(layers.layers, sources.location());
    match provenance.value(&["budget".to_owned()]) {
        Some(value) => UserBudget::deserialize(value).ok(),
        None => Some(UserBudget::default()),
    }
}

fn load_values(
    sources: &Sources,
    values: Dict,
    dir: PathBuf,
    provenance: Provenance,
) -> Option<LoadedConfig> {
    let file = ConfigDocument::deserialize(&Value::Dict(Tag::Default, values)).ok()?;
    let mut diagnostics = Diagnostics::new(&provenance, Vec::new(), Vec::new());
    let config = checks::resolve(file, sources, &dir, &mut diagnostics);
    LoadedConfig::new(config, dir, provenance, sources).ok()
}
