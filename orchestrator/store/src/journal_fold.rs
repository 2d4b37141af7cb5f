//! The fold of a run's journal, and whether it agrees with the latch.

use std::path::Path;

use jiff::Timestamp;
use ralph_orchestrator_machine::{Latch, State};

use super::error::StateError;
use super::journal::{JournalEntry, TornLine};
use super::latch::LatchFile;
use crate::stored_run::StoredRun;

/// The fold of the records of a run, as they are read.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalFold {
    state: State,
    seq: u64,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    worked: Option<Timestamp>,
}

impl JournalFold {
    pub(super) fn take(&mut self, entry: &JournalEntry) {
        self.started.get_or_insert(entry.time);
        self.ended = Some(entry.time);
        if entry.record.ends_work() {
            self.worked = Some(entry.time);
        }
        self.seq = entry.seq;
        self.state.apply(&entry.record);
    }

    /// Whether there was a first record.
    pub(super) const fn has_started(&self) -> bool {
        self.state.started.is_some()
    }

    /// Returns the run with this id, as far as its journal was read.
    pub(super) fn into_stored_run(self, run: &str, torn: Option<TornLine>) -> StoredRun {
        StoredRun {
            run: run.to_owned(),
            state: self.state,
            torn,
            started: self.started,
            ended: self.ended,
            worked: self.worked,
        }
    }

    /// Fails unless the journal is at least as long as the latch says, and as far.
    pub(super) fn check(&self, path: &Path, latch: &LatchFile) -> Result<(), StateError> {
        if self.seq < latch.seq {
            return Err(StateError::damaged(
                path,
                format!("{} records, but the latch was set after {}", self.seq, latch.seq),
            ));
        }
        if let Latch::Completed(_) = latch.latch
            && self.state.latch != latch.latch
        {
            return Err(StateError::damaged(path, "does not have the completion of the latch"));
        }
        if !self.has_started() {
            return Err(StateError::damaged(path, "does not begin with the start of a run"));
        }
        Ok(())
    }
}
