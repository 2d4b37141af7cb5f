//! A run whose journal is read once: later only what was appended.

use jiff::Timestamp;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{JournalEntry, Lock, RunReader};

use crate::located_run::LocatedRun;
use crate::run_summary::RunSummary;
use crate::selected_run::SelectedRun;

/// Iterations whose summaries are in memory. A run may have any number of them.
pub const MOST_KEPT: usize = 400;

/// A run that is read again and again, each time only what is new.
pub struct TrackedRun {
    located: LocatedRun,
    reader: RunReader,
    /// Without the iterations that are kept no more.
    story: RunSummary,
    is_cut: bool,
    /// When its runtime was last recorded.
    measured: Option<Timestamp>,
}

/// A run as it was read last.
pub struct TrackedState {
    /// The run.
    pub selected: SelectedRun,
    /// Why it cannot be read any further.
    pub damage: Option<String>,
}

impl TrackedRun {
    /// Returns a run of which nothing was read yet.
    pub fn new(located: LocatedRun) -> Self {
        let reader = RunReader::of_run(&located.state_dir.layout, &located.run);
        Self { located, reader, story: RunSummary::default(), is_cut: false, measured: None }
    }

    /// Returns where it lies.
    pub const fn located(&self) -> &LocatedRun {
        &self.located
    }

    /// Returns the summary of what was read.
    pub const fn story(&self) -> &RunSummary {
        &self.story
    }

    /// Whether the summary lacks the oldest iterations.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Gives `each` the records that are new, and returns the run as it is now.
    ///
    /// # Errors
    /// It has not begun, or nothing of it can be read.
    pub fn read(&mut self, mut each: impl FnMut(&JournalEntry)) -> Result<TrackedState, String> {
        let state_dir = &self.located.state_dir;
        let is_current = state_dir.run().is_some_and(|run| run == self.located.run);
        self.located.is_current = is_current;
        // First who holds it, then the journal: what is read is then at least as new.
        let holder = Lock::holder(&state_dir.layout).filter(|_| is_current);
        let Self { story, measured, is_cut, .. } = self;
        let read = self.reader.read(|entry| {
            story.add(&entry.record);
            *is_cut |= cut(story);
            *measured = entry.record.runtime_ms().map(|_| entry.time).or(*measured);
            each(entry);
        });
        let damage = read.err().map(|error| error.to_string());
        let found = self.reader.stored_run().ok_or_else(|| {
            damage.clone().unwrap_or_else(|| "the run has not begun yet".to_owned())
        })?;
        let selected = SelectedRun::new(state_dir.layout.clone(), found, holder, self.measured);
        Ok(TrackedState { selected, damage })
    }

    /// Reads the run from the start, up to an iteration that is kept no more.
    pub fn read_until(&self, before: u64) -> RunSummary {
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

/// Keeps the newest iterations only, and returns whether any were left out.
fn cut(story: &mut RunSummary) -> bool {
    let mut is_cut = false;
    while story.iterations.len() > MOST_KEPT {
        is_cut |= story.iterations.pop_first().is_some();
    }
    is_cut
}
