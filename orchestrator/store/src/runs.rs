//! The runs that a state directory holds, earlier ones included: read only, without taking the lock.

use std::fs;

use super::disk::Disk;
use super::error::StateError;
use super::heartbeat::Heartbeat;
use super::journal::{self, JournalEntry};
use super::journal_fold::JournalFold;
use super::key::Key;
use super::latch::LatchFile;
use super::layout::Layout;
use super::lock::is_being_deleted;
use super::state_store::read_current_run;
use crate::stored_run::StoredRun;

/// A run as it is read.
#[derive(Debug)]
pub struct LoadedRun {
    /// What its journal says.
    pub found: StoredRun,
    /// It is the run of the state directory, not an earlier one.
    pub is_current: bool,
    /// Where its journal cannot be trusted any more: what was read before that is what was written.
    pub damage: Option<StateError>,
}

/// Returns the ids of the runs that have a journal, the newest first.
///
/// # Errors
/// The state directory cannot be read.
pub fn list_runs(layout: &Layout) -> Result<Vec<String>, StateError> {
    if is_being_deleted(layout) {
        return Ok(Vec::new());
    }
    let path = layout.runs();
    let entries = match fs::read_dir(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(StateError::io("list", &path))?,
    };
    let mut runs = Vec::new();
    for entry in entries.flatten() {
        let Ok(run) = entry.file_name().into_string() else { continue };
        let journal = layout.journal(&run);
        match fs::metadata(&journal) {
            Ok(found) if found.is_file() => runs.push(run),
            // Not to be taken for one that is not there.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(StateError::io("read", &journal)(error));
            }
            _ => {}
        }
    }
    // An id begins with the time at which it was made.
    runs.sort_unstable_by(|one, other| other.cmp(one));
    Ok(runs)
}

/// Reads a run of a state directory. The current one has to be as its latch says. Of an earlier one, on
/// which nothing depends any more, all records are read up to the first that does not fit.
///
/// # Errors
/// It is damaged from its first record on, or cannot be read.
pub fn read_run(
    layout: &Layout,
    run: &str,
    mut each: impl FnMut(&JournalEntry),
) -> Result<LoadedRun, StateError> {
    let disk = &Disk::default();
    let Some(key) = Key::read(disk, &layout.key())? else {
        return Err(StateError::damaged(&layout.key(), "the key of this state is gone"));
    };
    let latch = LatchFile::read(disk, &key, &layout.latch())?;
    if latch.is_some_and(|latch| latch.run == run && latch.seq > 0)
        && let Some(found) = read_current_run(layout, &mut each)?
    {
        return Ok(LoadedRun { found, is_current: true, damage: None });
    }
    let mut fold = JournalFold::default();
    let path = layout.journal(run);
    let read = journal::read_journal(disk, &path, &key, |entry| {
        fold.take(&entry);
        each(&entry);
    });
    let (torn, damage) = match read {
        Ok(torn) => (torn, None),
        Err(error) if fold.has_started() => (None, Some(error)),
        Err(error) => return Err(error),
    };
    if !fold.has_started() {
        return Err(StateError::damaged(&path, "does not begin with the start of a run"));
    }
    let mut found = fold.into_stored_run(run, torn);
    Heartbeat::new(layout, run, &key).charge(&mut found);
    Ok(LoadedRun { found, is_current: false, damage })
}
