//! Where the configuration of a test comes from if no file is named.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::Config;
use ralph_orchestrator_plugin_protocol::ItemKind;
use serde_json::Value;

/// The file that is looked for.
const FILE: &str = "conformance.toml";
/// How far a library is below its crate at most: `target/TRIPLE/PROFILE/deps`.
const MOST_FOLDERS: usize = 6;

/// Returns the first of these folders' `conformance.toml`.
pub(super) fn conformance(folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(FILE)).find(|file| file.is_file())
}

/// Returns the folder of a library and those above it, up to its crate.
pub(super) fn folders_of(library: &Path) -> Vec<PathBuf> {
    let library = std::path::absolute(library).unwrap_or_else(|_| library.to_owned());
    let above: Vec<_> = library.ancestors().skip(1).take(MOST_FOLDERS).collect();
    // Above the crate lies what belongs to others.
    let is_crate = |folder: &&Path| folder.join("Cargo.toml").is_file();
    let count = above.iter().position(is_crate).map_or(1, |at| at + 1);
    above.into_iter().take(count).map(Path::to_owned).collect()
}

/// A table of `ralph.toml` that configures an item of the plugin.
#[derive(Clone, Debug)]
pub(super) struct ItemTable {
    kind: ItemKind,
    /// The item's name, if `ralph.toml` gives one.
    member: Option<String>,
    table: Value,
    /// Where it is, as in `agent.config`.
    pub(super) location: &'static str,
}

impl ItemTable {
    pub(super) fn value(&self) -> &Value {
        &self.table
    }
}

/// Returns the tables that `ralph.toml` gives items of this plugin.
pub(super) fn tables(config: &Config, plugin: &str) -> Vec<ItemTable> {
    let agents = std::iter::once(&config.agent).chain(config.agents.values());
    let agents =
        agents.map(|agent| (ItemKind::Agent, &agent.adapter, &agent.config, "agent.config"));
    let validators = config.validators.iter().map(|validator| {
        (ItemKind::Validator, &validator.kind, &validator.config, "[[validator]]")
    });
    let detectors = config.completion.detectors.iter().map(|detector| {
        (ItemKind::Detector, &detector.name, &detector.config, "completion.detectors")
    });
    let all = agents.chain(validators).chain(detectors);
    all.filter_map(|(kind, name, table, location)| {
        let (owner, member) = match name.split_once('/') {
            Some((owner, member)) => (owner, Some(member.to_owned())),
            None => (name.as_str(), None),
        };
        let table = table.clone();
        (owner == plugin).then_some(ItemTable { kind, member, table, location })
    })
    .collect()
}

/// Returns the first of these tables that configures this item.
pub(super) fn table_of<'a>(
    tables: &'a [ItemTable],
    kind: ItemKind,
    name: &str,
) -> Option<&'a ItemTable> {
    let fits = |table: &&ItemTable| {
        table.kind == kind && table.member.as_deref().is_none_or(|member| member == name)
    };
    tables.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_crate_is_found_and_none_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let library = root.join("mine/target/x86_64-unknown-linux-gnu/debug/libmine.so");
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::write(root.join(FILE), "").unwrap();
        std::fs::write(root.join("mine/Cargo.toml"), "").unwrap();
        assert_eq!(conformance(&folders_of(&library)), None);
        std::fs::write(root.join("mine").join(FILE), "").unwrap();
        assert_eq!(conformance(&folders_of(&library)), Some(root.join("mine").join(FILE)));
        let beside = library.with_file_name(FILE);
        std::fs::write(&beside, "").unwrap();
        assert_eq!(conformance(&folders_of(&library)), Some(beside));
        // Without a crate only the folder of the library counts.
        assert_eq!(folders_of(&root.join("other/libx.so")), [root.join("other")]);
    }
}
