//! Which run is there, without locking or changing anything.

use std::collections::BTreeMap;
use std::path::Path;

use super::construction::build_context;
use super::error::EngineError;
use super::existing_run::{ExistingRun, RunSetup};
use super::paths::{state_layout, verify_owner};
use crate::registry::Registry;
use crate::store::{Layout, StoredRun, read_current_run};
use ralph_orchestrator_config::LoadedConfig;

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
    let (context, protect) = (&context, &[]);
    let setup = RunSetup { loaded, layout: &layout, registry, context, vars, protect };
    let found = setup.find_completed(None).await?;
    Some((found, layout))
}

/// What a start would make of the run that is there.
#[derive(Debug)]
pub enum StoredRunUse {
    /// It is resumed, or complete with the same task.
    Continues(Box<StoredRun>),
    /// A new run begins after it, since its task is another one now.
    OtherTask(Box<StoredRun>),
}

/// Returns what a start would make of the run of this configuration, without taking the lock. `None` without a
/// run. `protect` is what the user names as protected on the command line.
///
/// # Errors
/// The state is damaged.
pub async fn find_stored_run(
    loaded: &LoadedConfig,
    state_home: &Path,
    vars: &BTreeMap<String, String>,
    registry: &Registry,
    protect: &[String],
) -> Result<Option<StoredRunUse>, EngineError> {
    let layout = state_layout(loaded, state_home)?;
    let Some(found) = read_current_run(&layout, |_| {})? else { return Ok(None) };
    let context = build_context(loaded, vars);
    let setup = RunSetup { loaded, layout: &layout, registry, context: &context, vars, protect };
    let current = found.clone();
    Ok(Some(match setup.classify(found, None).await {
        ExistingRun::Complete(found) | ExistingRun::Resumes(found) => {
            StoredRunUse::Continues(found)
        }
        // It has worked in the same place.
        ExistingRun::ResumesEarlier { .. } => StoredRunUse::Continues(Box::new(current)),
        ExistingRun::OtherTask { found, .. } => StoredRunUse::OtherTask(found),
    }))
}

/// Returns an id for a run, which begins with the time.
#[must_use]
pub fn new_run_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
