//! Reads a run again and again while it goes on, each time only what was appended.

use std::path::Path;

use super::disk::Disk;
use super::error::StateError;
use super::heartbeat::Heartbeat;
use super::journal::{self, JournalEnd, JournalEntry};
use super::journal_fold::JournalFold;
use super::key::Key;
use super::latch::LatchFile;
use super::layout::Layout;
use super::state_store::{gone, is_empty, read_latch};
use crate::stored_run::StoredRun;

/// Reads the current run of a state directory, or a certain one, without taking the lock or changing anything.
///
/// Every record is verified once, when it is read first. A journal that was replaced meanwhile is noticed at its
/// next record, which does not follow the last one that was read.
#[derive(Debug)]
pub struct RunReader {
    disk: Disk,
    layout: Layout,
    /// The run that is read; `None` for the current one.
    run: Option<String>,
    key: Option<Key>,
    position: Option<Position>,
}

/// How far a run was read.
#[derive(Debug)]
struct Position {
    run: String,
    fold: JournalFold,
    end: JournalEnd,
}

impl RunReader {
    /// Reads whatever run is the current one of a state directory.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        Self { disk: Disk::default(), layout: layout.clone(), run: None, key: None, position: None }
    }

    /// Reads one run of a state directory, be it the current or an earlier one.
    #[must_use]
    pub fn of_run(layout: &Layout, run: &str) -> Self {
        Self { run: Some(run.to_owned()), ..Self::new(layout) }
    }

    /// Returns the run that was read last, as far as it was read. Costs a copy of its state.
    #[must_use]
    pub fn stored_run(&self) -> Option<StoredRun> {
        let Position { run, fold, end } = self.position.as_ref()?;
        let mut found = fold.has_started().then(|| fold.clone().into_stored_run(run, end.torn))?;
        if let Some(key) = &self.key {
            Heartbeat::new(&self.layout, run, key).charge_if_ended(&self.layout, &mut found);
        }
        Some(found)
    }

    /// Gives `each` the records that were appended since the last call, and returns the id of the run that they
    /// are of; `None` if there is none yet. When another run has become the current one, its records are given
    /// from the first.
    ///
    /// # Errors
    /// The run is damaged, or cannot be read. Of an earlier one, on which nothing depends, the records before the
    /// damage were given.
    pub fn read(
        &mut self,
        mut each: impl FnMut(&JournalEntry),
    ) -> Result<Option<&str>, StateError> {
        let Some(key) = self.key()? else { return Ok(None) };
        // First the latch: a journal that is read after it has at least what the latch says.
        let latch = match &self.run {
            None => read_latch(&self.disk, &self.layout, &key)?,
            Some(run) => {
                let latch = LatchFile::read(&self.disk, &key, &self.layout.latch())?;
                latch.filter(|latch| latch.run == *run && latch.seq > 0)
            }
        };
        let run = self.run.as_ref().or(latch.as_ref().map(|latch| &latch.run)).cloned();
        let Some(run) = run else { return Ok(None) };
        let path = self.layout.journal(&run);
        self.position = self.position.take().filter(|position| position.run == run);
        let position = self.position.get_or_insert_with(|| Position {
            run,
            fold: JournalFold::default(),
            end: JournalEnd::default(),
        });
        position.read(&self.disk, &path, &key, &mut each)?;
        if let Some(latch) = &latch {
            position.fold.check(&path, latch)?;
        }
        Ok(Some(&position.run))
    }

    /// The key, which never changes; `None` if no run was ever begun.
    fn key(&mut self) -> Result<Option<Key>, StateError> {
        if self.key.is_none() {
            self.key = Key::read(&self.disk, &self.layout.key())?;
            if self.key.is_none() && !is_empty(&self.disk, &self.layout)? {
                return Err(StateError::damaged(
                    &self.layout.key(),
                    "the key of this state is gone",
                ));
            }
        }
        Ok(self.key.clone())
    }
}

impl Position {
    fn read(
        &mut self,
        disk: &Disk,
        path: &Path,
        key: &Key,
        each: &mut dyn FnMut(&JournalEntry),
    ) -> Result<(), StateError> {
        let fold = &mut self.fold;
        journal::read_appended(disk, path, key, &mut self.end, &mut |entry| {
            fold.take(&entry);
            each(&entry);
        })
        .map_err(|error| gone(error, path))
    }
}
