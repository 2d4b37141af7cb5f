//! Which run is there, without locking or changing anything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{Disk, Key, Layout, StoredRun, list_runs, read_run};
use ralph_orchestrator_workspace::WorkspaceHandle;

use super::construction::build_context;
use super::existing_run::{ExistingRun, RunSetup, load_frozen_config};
use super::location;
use super::paths::{state_layout, states_dir, verify_owner};
use super::pinned_paths;
use super::protection::{ProtectedChanges, ProtectedState};
use super::redact::Redactor;
use super::replaced_workspace::ReplacedWorkspace;
use crate::registry::Registry;

/// Returns the run of this configuration's workspace if it is complete and its task is still the same.
pub async fn find_completed(
    loaded: &LoadedConfig,
    state_home: &Path,
    vars: &BTreeMap<String, String>,
    registry: &Registry,
) -> Option<(StoredRun, Layout)> {
    let layout = state_layout(loaded, state_home).ok()?;
    verify_owner(loaded, &layout).ok()?;
    let context = build_context(loaded, vars);
    let setup = RunSetup::to_look((loaded, &layout), registry, (&context, vars));
    let found = setup.find_completed(None).await?;
    let workspace = real_path(&loaded.config.run.workspace);
    let held = workspace.is_dir().then(|| WorkspaceHandle::open(&workspace)).transpose().ok()?;
    let states = states_dir(state_home);
    ReplacedWorkspace::refuse(loaded, &layout, held.as_ref(), &found, &states).ok()?;
    Some((found, layout))
}

/// Returns whether a start would begin a new run after this one, which it found, since its task is another one
/// now. `protect` is what the user names as protected on the command line.
///
/// # Errors
/// The configuration names no state directory that could be used.
pub async fn has_other_task(
    found: StoredRun,
    loaded: &LoadedConfig,
    state_home: &Path,
    vars: &BTreeMap<String, String>,
    registry: &Registry,
    protect: &[String],
) -> Result<bool, ConfigErrors> {
    let layout = state_layout(loaded, state_home)?;
    let context = build_context(loaded, vars);
    let setup = RunSetup::to_look((loaded, &layout), registry, (&context, vars));
    let setup = RunSetup { protect, ..setup };
    // An earlier run that is resumed instead has worked in the same place.
    Ok(matches!(setup.classify(found, None, None).await, ExistingRun::OtherTask { .. }))
}

/// Returns why a start would not go on with an unfinished run, if a person has changed what that protects since its agent
/// worked last.
pub async fn find_protected_changes(
    found: &StoredRun,
    layout: &Layout,
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    registry: &Registry,
) -> Option<String> {
    // In an iteration that was cut off, the agent may have changed anything.
    let worked = found.worked.filter(|_| found.state.running.is_none())?;
    let context = build_context(loaded, vars);
    let setup = RunSetup::to_look((loaded, layout), registry, (&context, vars));
    let frozen = setup.load_frozen_policy(&found.run).await?;
    let baseline = serde_json::from_slice(&read_baseline(layout, &found.run)).ok()?;
    let (state, workspace) =
        (Arc::new(ProtectedState::new(baseline)), real_path(&loaded.config.run.workspace));
    let has_checkout = found.state.started.as_ref().is_some_and(|started| started.checkout);
    let seen = has_checkout.then(|| pinned_paths::read_closed(layout, &found.run).ok()).flatten();
    let since = (Some(worked), seen.as_ref());
    let changes = ProtectedChanges::find(&frozen.policy, state, &workspace, since).await;
    changes.ok()?.filter(|changes| changes.is_by_person).map(|changes| changes.text)
}

/// Returns the newest run of a state directory, if it can be read.
pub(super) fn read_newest(layout: &Layout) -> Option<StoredRun> {
    let newest = list_runs(layout).ok()?.into_iter().next()?;
    Some(read_run(layout, &newest, |_| {}).ok()?.found)
}

/// Returns what a run protects as it was when the run began, as it is stored; nothing of a run that protects nothing.
pub(super) fn read_baseline(layout: &Layout, run: &str) -> Vec<u8> {
    let stored = std::fs::read(layout.baseline(run)).unwrap_or_default();
    let key = Key::read(&Disk::default(), &layout.key()).ok().flatten();
    key.as_ref().and_then(|key| key.unseal(&stored)).unwrap_or_default().into_owned()
}

/// Whether the configuration that is stored with a completed run is the one whose validators accepted it, and this
/// prompt, if one is given, what they accepted it for.
pub async fn is_as_recorded(
    found: &StoredRun,
    layout: &Layout,
    prompt: Option<&str>,
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    registry: &Registry,
) -> bool {
    let Some(recorded) = found.state.policy().filter(|_| found.state.completion().is_some()) else {
        return false;
    };
    let context = build_context(loaded, vars);
    let setup = RunSetup::to_look((loaded, layout), registry, (&context, vars));
    let Some(frozen) = setup.load_frozen_policy(&found.run).await else { return false };
    // There is none of a run that protects nothing; one that cannot be read is another one.
    let baseline = read_baseline(layout, &found.run);
    if !frozen.policy.freeze(&baseline).decides_like(recorded) {
        return false;
    }
    match prompt {
        Some(prompt) => found.state.has_completed(&frozen.policy.task_digest(prompt).await),
        None => true,
    }
}

/// Returns what removes the secrets of a run from what is shown of it: as far as `vars` and its configuration have them.
#[must_use]
pub fn redactor_of_run(layout: &Layout, run: &str, vars: &BTreeMap<String, String>) -> Redactor {
    let env = load_frozen_config(layout, run).map(|loaded| loaded.config.env).unwrap_or_default();
    Redactor::new(&env, vars)
}

/// Whether a run began in this folder, wherever that has been moved since.
#[must_use]
pub fn is_run_folder(found: &StoredRun, folder: &Path) -> bool {
    location::is_pinned_folder(&found.state.identities, folder)
}

/// Returns an id for a run, which begins with the time.
#[must_use]
pub fn new_run_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
