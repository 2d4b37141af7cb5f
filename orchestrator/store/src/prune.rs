//! Deletes the records of runs that have ended, and that nothing depends on any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::deletion::Deletion;
use super::disk::Disk;
use super::error::StateError;
use super::key::Key;
use super::latch::LatchFile;
use super::layout::Layout;
use super::lock::Lock;
use super::runs::{list_runs, read_run};
use crate::holder::Work;

/// A run that has ended and is not the one of its state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Its id.
    pub run: String,
    /// When its last record was written.
    pub ended: Option<Timestamp>,
    /// What its folder takes on disk.
    pub bytes: u64,
}

/// Returns the runs of a state directory that may be deleted, the newest first: those that completed or stopped,
/// except for the one that the latch names. Where several runs make one work, one that is not complete may be
/// resumed by its item, and is none of them. Nor is one whose journal is damaged.
///
/// # Errors
/// The state directory is damaged or cannot be read.
pub fn ended_runs(layout: &Layout) -> Result<Vec<EndedRun>, StateError> {
    let current = current_run(layout)?;
    let has_series = layout.series().exists();
    let mut found = Vec::new();
    for run in list_runs(layout)? {
        if current.as_ref() == Some(&run) {
            continue;
        }
        let Ok(stored) = read_run(layout, &run, |_| {}) else { continue };
        let state = &stored.found.state;
        let has_ended = state.completion().is_some() || (state.stop.is_some() && !has_series);
        if stored.damage.is_none() && has_ended {
            let bytes = size_of(&layout.run(&run));
            found.push(EndedRun { run, ended: stored.found.ended, bytes });
        }
    }
    Ok(found)
}

/// Deletes these runs, as far as they may still be deleted once the state is locked. Returns those that are gone.
///
/// # Errors
/// Another process holds the state, it is damaged, or something cannot be removed.
pub fn remove_ended_runs(
    disk: &Disk,
    layout: &Layout,
    mut chosen: Vec<EndedRun>,
) -> Result<Vec<EndedRun>, StateError> {
    if chosen.is_empty() {
        return Ok(chosen);
    }
    let _lock = Lock::take(disk, layout, Work::Prune)?;
    let removable: BTreeSet<String> =
        ended_runs(layout)?.into_iter().map(|ended| ended.run).collect();
    chosen.retain(|ended| removable.contains(&ended.run));
    let runs = chosen.iter().map(|ended| ended.run.clone()).collect();
    Deletion::Runs(runs).perform(disk, layout)?;
    Ok(chosen)
}

/// Returns the run that the latch names. A state without a latch that has runs is damaged.
fn current_run(layout: &Layout) -> Result<Option<String>, StateError> {
    let disk = &Disk::default();
    let key = Key::read(disk, &layout.key())?;
    let latch = match &key {
        Some(key) => LatchFile::read(disk, key, &layout.latch())?,
        None => None,
    };
    match latch {
        Some(latch) => Ok(Some(latch.run)),
        None if list_runs(layout)?.is_empty() => Ok(None),
        None => Err(StateError::damaged(&layout.latch(), "the latch is gone, but not the runs")),
    }
}

/// Returns the bytes of all files below a folder. No link is followed; what cannot be read counts nothing.
fn size_of(folder: &Path) -> u64 {
    let mut sum = 0_u64;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                sum = sum.saturating_add(found.len());
            }
        }
    }
    sum
}
