//! Where the state of a configuration lies, and whose it is.

use std::path::{Path, PathBuf};

use super::construction::error_at;
use super::error::EngineError;
use crate::state::{self, StateError};
use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};

/// Returns the owner of the state of this configuration's run.
pub(super) fn state_owner(loaded: &LoadedConfig) -> state::Owner {
    let workspace = real_path(&loaded.config.run.workspace);
    state::Owner::new(&workspace, loaded.configuration().as_deref())
}

/// Refuses a state directory that belongs to another workspace or configuration.
///
/// # Errors
/// It does: the configuration is wrong if it names the directory, and otherwise another directory was put
/// in its place.
pub fn verify_owner(loaded: &LoadedConfig, layout: &state::Layout) -> Result<(), EngineError> {
    match state_owner(loaded).verify(layout) {
        Err(StateError::Foreign { path, owner, asked }) => {
            let problem = format!("belongs to the run of {owner}, not to that of {asked}");
            if loaded.config.state.dir.is_none() {
                let problem = format!("{problem}; begin a new run with `run --restart`");
                return Err(StateError::Damaged { path, problem }.into());
            }
            let message = format!(
                "the state directory {} {problem}; name another folder, or, if the configuration or \
                 the workspace was moved, put it back",
                path.display()
            );
            Err(error_at(loaded, &["state", "dir"], &message).into())
        }
        verified => Ok(verified?),
    }
}

/// Returns where the state of this configuration's run is.
///
/// # Errors
/// It would lie in the workspace, where the agent could reach it.
pub fn state_layout(
    loaded: &LoadedConfig,
    state_home: &Path,
) -> Result<state::Layout, ConfigErrors> {
    let workspace = real_path(&loaded.config.run.workspace);
    let root = match &loaded.config.state.dir {
        Some(dir) => dir.clone(),
        None => state_home
            .join("ralph-orchestrator")
            .join(crate::workspace::identity(&workspace, loaded.configuration().as_deref())),
    };
    if real_path(&root).starts_with(&workspace) {
        let message = format!(
            "the state directory {} lies in the workspace {}, within the agent's reach; \
             choose one outside",
            root.display(),
            workspace.display()
        );
        return Err(error_at(loaded, &["state", "dir"], &message));
    }
    Ok(state::Layout::new(root))
}

/// Returns the path without links, as far as it exists.
pub(super) fn real_path(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |path: PathBuf, part| path.join(part));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}
