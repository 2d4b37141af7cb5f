//! A run whose journal is read once: later requests read only what was appended.

use jiff::Timestamp;
use ralph_orchestrator_core::machine::RunSummary;
use ralph_orchestrator_core::store::{Lock, RunReader};
use ralph_orchestrator_web::SourceError;
use serde_json::{Value, json};

use super::LocatedRun;
use crate::commands::run_selection::SelectedRun;
use crate::commands::status;

pub(super) struct TrackedRun {
    located: LocatedRun,
    reader: RunReader,
    story: RunSummary,
    /// When its runtime was last recorded.
    measured: Option<Timestamp>,
}

impl TrackedRun {
    pub(super) fn new(located: LocatedRun) -> Self {
        let reader = RunReader::of_run(&located.state_dir.layout, &located.run);
        Self { located, reader, story: RunSummary::default(), measured: None }
    }

    /// Returns the object of `status --json`, with the iterations of `why --json` and the last verdicts.
    pub(super) fn show(&mut self) -> Result<Value, SourceError> {
        let state_dir = &self.located.state_dir;
        let is_current = state_dir.run().is_some_and(|run| run == self.located.run);
        self.located.is_current = is_current;
        // First who holds it, then the journal: what is read is then at least as new.
        let holder = Lock::holder(&state_dir.layout).filter(|_| is_current);
        let (story, measured) = (&mut self.story, &mut self.measured);
        let read = self.reader.read(|entry| {
            story.add(&entry.record);
            *measured = entry.record.runtime_ms().map(|_| entry.time).or(*measured);
        });
        let damage = read.err().map(|error| error.to_string());
        let found = self.reader.stored_run().ok_or_else(|| {
            let text = damage.clone().unwrap_or_else(|| "the run has not begun yet".to_owned());
            SourceError::Failed(text)
        })?;
        let question = found.state.stop.as_ref().map(|stop| stop.message.clone());
        let selected = SelectedRun::new(state_dir.layout.clone(), found, holder, self.measured);
        let mut object = status::object(&selected);
        let iterations = self.story.iterations.values().filter(|one| !one.is_empty());
        if let Some(object) = object.as_object_mut() {
            let owner = &state_dir.owner;
            let more = [
                ("workspace", json!(owner.workspace())),
                ("configuration", json!(owner.configuration())),
                ("task", json!(owner.task())),
                ("current", json!(is_current)),
                ("message", json!(question)),
                ("damage", json!(damage)),
                ("verdicts", json!(self.story.verdicts)),
                ("iteration_list", json!(iterations.collect::<Vec<_>>())),
            ];
            object.extend(more.map(|(name, value)| (name.to_owned(), value)));
        }
        Ok(object)
    }
}
