//! Where agents can write beside what belongs to the orchestrator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{LoadedConfig, SandboxMode};
use ralph_orchestrator_safe_fs::real_path;
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
    own_places(loaded).into_iter().chain(around).collect()
}

/// Returns where agents of this configuration can write: the workspace, that which a worktree is a copy of, and what a
/// sandbox lets them write.
pub(crate) fn own_places(loaded: &LoadedConfig) -> Vec<PathBuf> {
    let config = &loaded.config;
    let is_confined = config.sandbox.mode != SandboxMode::Off;
    let listed = config.sandbox.write.iter().filter(|_| is_confined);
    let workspaces = [config.run.workspace.as_path(), loaded.configured_workspace()];
    let places = workspaces.into_iter().chain(listed.map(PathBuf::as_path));
    places.map(real_path).collect()
}
