//! A run as the interface shows it.

use ralph_orchestrator_web::SourceError;
use serde_json::{Value, json};

use crate::commands::status;
use crate::user_runs::tracked::{TrackedRun, TrackedState};

/// Returns the object of `status --json`, with the iterations of `why --json` and the last verdicts.
pub(super) fn show(tracked: &mut TrackedRun) -> Result<Value, SourceError> {
    let TrackedState { selected, damage } = tracked.read(|_| {}).map_err(SourceError::Failed)?;
    let mut object = status::object(&selected);
    let story = tracked.story();
    let iterations = story.iterations.values().filter(|one| !one.is_empty());
    let located = tracked.located();
    if let Some(object) = object.as_object_mut() {
        let owner = &located.state_dir.owner;
        let message = selected.found.state.stop.as_ref().map(|stop| stop.message.as_str());
        let more = [
            ("workspace", json!(owner.workspace())),
            ("configuration", json!(owner.configuration())),
            ("task", json!(owner.task())),
            ("current", json!(located.is_current)),
            ("message", json!(message)),
            ("damage", json!(damage)),
            ("verdicts", json!(story.verdicts)),
            ("iteration_list", json!(iterations.collect::<Vec<_>>())),
        ];
        object.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    Ok(object)
}
