//! Deletes parts of a state directory so that whoever interrupts it leaves no damaged state.
//!
//! What is to be deleted is written down first. From then on it counts as deleted, and whoever uses the state
//! next finishes what a killed process has left.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::StateError;
use super::layout::Layout;
use super::memory_files::MemoryFiles;

/// Larger than any such file, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// What of a state directory is being deleted.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Deletion {
    /// All runs, and what belongs to them.
    State,
    /// These runs.
    Runs(Vec<String>),
}

impl Deletion {
    /// Deletes it. The lock of the state has to be held.
    ///
    /// # Errors
    /// Something cannot be written or removed. The next that takes the lock tries again.
    pub(super) fn perform(&self, disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        disk.write_private(&layout.deletion(), &text)?;
        self.complete(disk, layout)
    }

    /// Deletes what is left of it.
    fn complete(&self, disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        match self {
            Self::State => remove_state(disk, layout)?,
            Self::Runs(runs) => {
                for run in runs.iter().filter(|run| is_plain_name(run)) {
                    // Without its journal it is no run any more, whatever becomes of the rest.
                    disk.remove_private(&layout.journal(run))?;
                    remove_folder(disk, &layout.run(run))?;
                }
            }
        }
        // What is gone has to stay gone when this does not say so any more.
        disk.sync_dir(layout.root())?;
        disk.remove_private(&layout.deletion())
    }

    /// Returns what is being deleted, if anything is.
    pub(super) fn read(disk: &Disk, layout: &Layout) -> Result<Option<Self>, StateError> {
        let path = layout.deletion();
        let Some(text) = disk.read_if_exists(&path, LARGEST)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            StateError::damaged(&path, format!("does not say what is being deleted: {error}"))
        })
    }
}

/// Finishes the deletion that a killed process has left, if there is one. The lock of the state has to be held.
///
/// # Errors
/// Something cannot be removed.
pub(super) fn finish_deletion(disk: &Disk, layout: &Layout) -> Result<(), StateError> {
    match Deletion::read(disk, layout)? {
        Some(deletion) => deletion.complete(disk, layout),
        None => Ok(()),
    }
}

/// Archives and files for people stay: nobody else has them. So do worktrees, which hold work: only what is recorded
/// of them goes.
fn remove_state(disk: &Disk, layout: &Layout) -> Result<(), StateError> {
    disk.remove_private(&layout.latch())?;
    disk.remove_private(&layout.memory().join(MemoryFiles::STATE))?;
    for folder in [layout.inbox(), layout.series(), layout.worktrees(), layout.runs()] {
        remove_folder(disk, &folder)?;
    }
    disk.remove_private(&layout.rollbacks())?;
    disk.remove_private(&layout.owner())?;
    // Last: what is signed by it is gone.
    disk.remove_private(&layout.key())
}

fn remove_folder(disk: &Disk, path: &Path) -> Result<(), StateError> {
    match disk.remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StateError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Whether this is the name of something in a folder.
fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}
