//! Where agents can write beside what belongs to the orchestrator.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{LoadedConfig, SandboxMode};
use ralph_orchestrator_safe_fs::{normalize_lexically, real_path};

/// Returns where agents can put programs and what these read, with links resolved: the workspace, that which a worktree
/// is a copy of, and what a sandbox lets them write.
pub fn agent_places(loaded: &LoadedConfig) -> Vec<PathBuf> {
    let config = &loaded.config;
    let is_confined = config.sandbox.mode != SandboxMode::Off;
    let listed = config.sandbox.write.iter().filter(|_| is_confined);
    let workspaces = [config.run.workspace.as_path(), loaded.configured_workspace()];
    let places = workspaces.into_iter().chain(listed.map(PathBuf::as_path));
    places.map(real_path).collect()
}

/// Whether a path is in one of these places, by its text or by where it leads.
pub fn leads_into(path: &Path, places: &[PathBuf]) -> bool {
    let (lexical, real) = (normalize_lexically(path), real_path(path));
    places.iter().any(|place| lexical.starts_with(place) || real.starts_with(place))
}
