//! Where the run of a configuration is, though the configuration may be wrong otherwise.

use figment::value::{Dict, Tag, Value};
use serde::Deserialize as _;

use super::file::File;
use super::loaded::Loaded;
use super::problem::Problems;
use super::provenance::Provenance;
use super::{Sources, resolve};

/// The keys that say where a run is and what it is about.
const KEYS: [(&str, &[&str]); 2] =
    [("run", &["workspace", "prompt", "prompt_text"]), ("state", &["dir"])];

/// Reads workspace, prompt and state directory, and nothing else; what is wrong with anything does not
/// matter. `None` if they cannot be told, as after a syntax error. Nothing may be started with it.
#[must_use]
pub fn load_places(sources: &Sources) -> Option<Loaded> {
    let dir = sources.folder().ok()?;
    let layers = sources.layers();
    if layers.unread {
        return None;
    }
    let provenance = Provenance::new(layers.layers, sources.place());
    let mut values = Dict::new();
    for (table, keys) in KEYS {
        let value = |key: &&str| {
            let path = [table.to_owned(), (*key).to_owned()];
            Some(((*key).to_owned(), provenance.value(&path)?.clone()))
        };
        let found: Dict = keys.iter().filter_map(value).collect();
        values.insert(table.to_owned(), Value::Dict(Tag::Default, found));
    }
    let file = File::deserialize(&Value::Dict(Tag::Default, values)).ok()?;
    let mut problems = Problems::new(&provenance, Vec::new(), Vec::new());
    let config = resolve::config(file, &dir, &mut problems);
    Loaded::new(config, dir, provenance).ok()
}
