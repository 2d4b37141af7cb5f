//! Where the state of a configuration lies, and whose it is.

use std::path::{Path, PathBuf};

use super::construction::error_at;
use super::error::EngineError;
use crate::store::{Layout, Owner, StateError};
use crate::workspace::{state_dir_name, task_state_dir_name};
use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_safe_fs::real_path;

/// Returns the owner of the state of this configuration's run.
pub(super) fn state_owner(loaded: &LoadedConfig) -> Owner {
    let workspace = real_path(loaded.configured_workspace());
    Owner::new(&workspace, loaded.configuration().as_deref()).with_task(loaded.task())
}

/// Refuses a state directory that belongs to another workspace or configuration.
///
/// # Errors
/// It does: the configuration is wrong if it names the directory, and otherwise another directory was put
/// in its place.
pub fn verify_owner(loaded: &LoadedConfig, layout: &Layout) -> Result<(), EngineError> {
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

/// Returns the folder of all states whose place no configuration names, in the user's folder for state.
#[must_use]
pub fn states_dir(state_home: &Path) -> PathBuf {
    state_home.join("ralph-orchestrator")
}

/// Returns where the state of this configuration's run is unless `state.dir` says otherwise.
pub(super) fn default_state_dir(loaded: &LoadedConfig, state_home: &Path) -> PathBuf {
    let workspace = real_path(loaded.configured_workspace());
    let configuration = loaded.configuration();
    let name = match loaded.task() {
        Some(task) => task_state_dir_name(&workspace, configuration.as_deref(), task),
        None => state_dir_name(&workspace, configuration.as_deref()),
    };
    states_dir(state_home).join(name)
}

fn add_to_name(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Returns where the state of this configuration's run is.
///
/// # Errors
/// It would lie in the workspace, where the agent could reach it.
pub fn state_layout(loaded: &LoadedConfig, state_home: &Path) -> Result<Layout, ConfigErrors> {
    let workspace = real_path(loaded.configured_workspace());
    let root = match &loaded.config.state.dir {
        Some(dir) => match loaded.task() {
            // Beside it, as what is in it may be deleted as a whole.
            Some(task) => add_to_name(dir, &format!("-{task}")),
            None => dir.clone(),
        },
        None => default_state_dir(loaded, state_home),
    };
    // The run may work in another folder than the one that identifies it: a worktree.
    let worktree = real_path(&loaded.config.run.workspace);
    if let Some(workspace) =
        [workspace, worktree].into_iter().find(|folder| real_path(&root).starts_with(folder))
    {
        let message = format!(
            "the state directory {} lies in the workspace {}, within the agent's reach; \
             choose one outside",
            root.display(),
            workspace.display()
        );
        return Err(error_at(loaded, &["state", "dir"], &message));
    }
    Ok(Layout::new(root))
}
