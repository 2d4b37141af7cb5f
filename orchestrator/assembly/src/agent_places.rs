//! Where agents can write beside what belongs to the orchestrator.

use std::path::PathBuf;

use ralph_orchestrator_config::{LoadedConfig, SandboxMode};
use ralph_orchestrator_safe_fs::real_path;

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
