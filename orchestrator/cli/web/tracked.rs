//! A run whose journal is read once: later requests read only what was appended.

use jiff::Timestamp;
use ralph_orchestrator_core::machine::{IterationSummary, Record, RunSummary};
use ralph_orchestrator_core::store::{Lock, RunReader};
use ralph_orchestrator_web::SourceError;
use serde_json::{Value, json};

use super::LocatedRun;
use crate::commands::run_selection::SelectedRun;
use crate::commands::status;

/// Iterations in one answer.
const MOST_ITERATIONS: usize = 200;

/// Iterations that are in memory. A run may have any number of them.
const MOST_KEPT: usize = 2 * MOST_ITERATIONS;

pub(super) struct TrackedRun {
    located: LocatedRun,
    reader: RunReader,
    /// Without the iterations that are kept no more.
    story: RunSummary,
    is_cut: bool,
    /// When its runtime was last recorded.
    measured: Option<Timestamp>,
}

impl TrackedRun {
    pub(super) fn new(located: LocatedRun) -> Self {
        let reader = RunReader::of_run(&located.state_dir.layout, &located.run);
        Self { located, reader, story: RunSummary::default(), is_cut: false, measured: None }
    }

    /// Returns the object of `status --json`, with the iterations of `why --json` and the last verdicts.
    pub(super) fn show(&mut self) -> Result<Value, SourceError> {
        let state_dir = &self.located.state_dir;
        let is_current = state_dir.run().is_some_and(|run| run == self.located.run);
        // First who holds it, then the journal: what is read is then at least as new.
        let holder = Lock::holder(&state_dir.layout).filter(|_| is_current);
        self.located.is_current = is_current;
        let damage = self.read();
        let state_dir = &self.located.state_dir;
        let found = self.reader.stored_run().ok_or_else(|| {
            let text = damage.clone().unwrap_or_else(|| "the run has not begun yet".to_owned());
            SourceError::Failed(text)
        })?;
        let question = found.state.stop.as_ref().map(|stop| stop.message.clone());
        let selected = SelectedRun::new(state_dir.layout.clone(), found, holder, self.measured);
        let mut object = status::object(&selected);
        let iterations = newest(&self.story, u64::MAX);
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
                ("iteration_list", json!(iterations)),
            ];
            object.extend(more.map(|(name, value)| (name.to_owned(), value)));
        }
        Ok(object)
    }

    /// Returns the newest iterations before this one, as `why --json` prints them, the oldest of them first.
    pub(super) fn iterations(&mut self, before: Option<u64>) -> Result<Value, SourceError> {
        let damage = self.read();
        if self.reader.stored_run().is_none() {
            let text = damage.unwrap_or_else(|| "the run has not begun yet".to_owned());
            return Err(SourceError::Failed(text));
        }
        let before = before.unwrap_or(u64::MAX);
        let known = newest(&self.story, before);
        if known.len() >= MOST_ITERATIONS || !self.is_cut {
            return Ok(json!({ "iterations": known }));
        }
        let story = self.read_until(before);
        Ok(json!({ "iterations": newest(&story, before) }))
    }

    /// Reads what was appended, and returns what is damaged.
    fn read(&mut self) -> Option<String> {
        let Self { story, measured, is_cut, .. } = self;
        let read = self.reader.read(|entry| {
            story.add(&entry.record);
            *is_cut |= cut(story);
            *measured = entry.record.runtime_ms().map(|_| entry.time).or(*measured);
        });
        read.err().map(|error| error.to_string())
    }

    /// Reads the run from the start, up to an iteration that is kept no more.
    fn read_until(&self, before: u64) -> RunSummary {
        let mut story = RunSummary::default();
        let mut is_over = false;
        let mut reader = RunReader::of_run(&self.located.state_dir.layout, &self.located.run);
        // What is damaged is said by what shows the run.
        drop(reader.read(|entry| {
            is_over |= matches!(
                entry.record,
                Record::IterationStarted { iteration, .. } if iteration >= before
            );
            if !is_over {
                story.add(&entry.record);
                cut(&mut story);
            }
        }));
        story
    }
}

/// Returns the newest iterations before this one in which something happened, the oldest of them first.
fn newest(story: &RunSummary, before: u64) -> Vec<&IterationSummary> {
    let iterations = story.iterations.range(..before).rev();
    let some = iterations.map(|(_, one)| one).filter(|one| !one.is_empty());
    let mut newest: Vec<_> = some.take(MOST_ITERATIONS).collect();
    newest.reverse();
    newest
}

/// Keeps the newest iterations only, and returns whether any were left out.
fn cut(story: &mut RunSummary) -> bool {
    let mut is_cut = false;
    while story.iterations.len() > MOST_KEPT {
        is_cut |= story.iterations.pop_first().is_some();
    }
    is_cut
}
