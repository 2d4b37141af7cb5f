//! Where agents can write beside what belongs to the orchestrator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_engine::find_work_folders;
use ralph_orchestrator_store::TrustStore;

/// Returns where agents can put programs and what these read, with links resolved: the places of this configuration's
/// agents, and around its folder and the folders of `PATH` those in which agents of any run have worked.
pub fn agent_places(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    store: &TrustStore,
) -> Vec<PathBuf> {
    let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
    let folders = path.split(':').map(Path::new).filter(|folder| folder.is_absolute());
    let folders = folders.chain([loaded.dir()]);
    let around: BTreeSet<PathBuf> =
        folders.flat_map(|folder| store.known_folders_around(folder)).collect();
    find_work_folders(loaded).into_iter().chain(around).collect()
}
