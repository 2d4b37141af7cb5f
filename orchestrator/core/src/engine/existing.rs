//! The run that a start finds: does it go on, is it complete, or is its task another one?

use std::path::Path;

use super::plan::Judges;
use super::prompt::PromptSource;
use crate::registry::Registry;
use crate::store::{Layout, StateError, StoredRun};
use ralph_orchestrator_config::{self as config, LoadedConfig, Sources};
use ralph_orchestrator_contract::BuildContext;

const OTHER_TASK: &str = "the prompt changed since completion: this is a new run";
const OTHER_TEXT: &str = "the task is another one than that of the last run: this is a new run";

/// What becomes of the run that was found.
pub(super) enum Existing {
    /// It is complete.
    Complete(Box<StoredRun>),
    /// It is gone on with.
    Resumes(Box<StoredRun>),
    /// A new one begins; why, for people.
    OtherTask(String),
}

/// What becomes of it, as this configuration is now.
pub(super) async fn classify(
    found: StoredRun,
    loaded: &LoadedConfig,
    layout: &Layout,
    registry: &Registry,
    context: &BuildContext,
) -> Existing {
    if found.state.completion().is_some() {
        return if same_task(&found, loaded, layout, registry, context).await {
            Existing::Complete(Box::new(found))
        } else {
            Existing::OtherTask(OTHER_TASK.to_owned())
        };
    }
    if is_other_task(&found, loaded, layout) {
        return Existing::OtherTask(format!("{OTHER_TEXT}; run {} is kept as it is", found.run));
    }
    Existing::Resumes(Box::new(found))
}

/// Refuses the journal of another workspace.
pub(super) fn belongs_here(
    found: &StoredRun,
    workspace: &Path,
    layout: &Layout,
) -> Result<(), StateError> {
    let started = found.state.started.as_ref().map(|started| started.workspace.as_str());
    if started.is_some_and(|started| Path::new(started) != workspace) {
        let problem = format!(
            "belongs to the workspace {}, not to {}; begin a new run with `run --restart`",
            started.unwrap_or_default(),
            workspace.display()
        );
        return Err(StateError::Damaged { path: layout.root().to_owned(), problem });
    }
    Ok(())
}

/// Whether the prompt still asks for what was completed. What cannot be told leaves it complete.
pub(super) async fn same_task(
    found: &StoredRun,
    loaded: &LoadedConfig,
    layout: &Layout,
    registry: &Registry,
    context: &BuildContext,
) -> bool {
    let task = found.state.completion().map(|completion| completion.task.as_str());
    let Some(task) = task.filter(|task| !task.is_empty()) else { return true };
    // The task is compared as the detectors of that run saw it, whatever is configured now.
    let judges = kept_judges(layout, &found.run, registry, context).await;
    let prompt = PromptSource::recorded(&loaded.config.run, &found.state.identities).read_text();
    match (judges, prompt.filter(|text| !text.trim().is_empty())) {
        (Some(judges), Some(prompt)) => judges.task(&prompt).await == task,
        _ => true,
    }
}

/// Whether a run that has no configuration file was begun with another text of its task: then it is
/// another run. Whoever edits a file may mend the prompt of a run that goes on.
fn is_other_task(found: &StoredRun, loaded: &LoadedConfig, layout: &Layout) -> bool {
    if loaded.configuration().is_some() {
        return false;
    }
    let before = kept_config(layout, &found.run).and_then(|kept| kept.config.run.prompt_text);
    match (&loaded.config.run.prompt_text, before) {
        (Some(now), Some(before)) => now.trim() != before.trim(),
        _ => false,
    }
}

pub(super) fn kept_config(layout: &Layout, run: &str) -> Option<LoadedConfig> {
    let sources = Sources { file: layout.config(run), ..Sources::default() };
    config::load(&sources).ok()
}

/// Who decides in a run that goes on, from the configuration that was kept with it.
pub(super) async fn kept_judges(
    layout: &Layout,
    run: &str,
    registry: &Registry,
    context: &BuildContext,
) -> Option<Judges> {
    let loaded = kept_config(layout, run)?;
    Judges::build(&loaded, registry, context).await.ok()
}
