//! A run as the interface shows it.

use ralph_orchestrator_story::run_summary::{IterationSummary, RunSummary};
use ralph_orchestrator_story::status;
use ralph_orchestrator_story::tracked_run::{MOST_KEPT, TrackedRun, TrackedState};
use ralph_orchestrator_web::SourceError;
use serde_json::{Value, json};

/// Iterations in one answer.
const MOST_ITERATIONS: usize = MOST_KEPT / 2;

/// Returns the object of `status --json`, with the iterations of `why --json` and the last verdicts.
pub(super) fn show(tracked: &mut TrackedRun) -> Result<Value, SourceError> {
    let TrackedState { selected, damage } = tracked.read(|_| {}).map_err(SourceError::Failed)?;
    let mut object = status::object(&selected);
    let story = tracked.story();
    let iterations = newest(story, u64::MAX);
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
            ("iteration_list", json!(iterations)),
        ];
        object.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    Ok(object)
}

/// Returns the newest iterations before this one, as `why --json` prints them, the oldest of them first.
pub(super) fn iterations(
    tracked: &mut TrackedRun,
    before: Option<u64>,
) -> Result<Value, SourceError> {
    tracked.read(|_| {}).map_err(SourceError::Failed)?;
    let before = before.unwrap_or(u64::MAX);
    let known = newest(tracked.story(), before);
    if known.len() >= MOST_ITERATIONS || !tracked.is_cut() {
        return Ok(json!({ "iterations": known }));
    }
    let story = tracked.read_until(before);
    Ok(json!({ "iterations": newest(&story, before) }))
}

/// Returns the newest iterations before this one in which something happened, the oldest of them first.
fn newest(story: &RunSummary, before: u64) -> Vec<&IterationSummary> {
    let iterations = story.iterations.range(..before).rev();
    let some = iterations.map(|(_, one)| one).filter(|one| !one.is_empty());
    let mut newest: Vec<_> = some.take(MOST_ITERATIONS).collect();
    newest.reverse();
    newest
}
