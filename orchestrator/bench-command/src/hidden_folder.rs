//! A folder in which something is made beside its place, by one process at a time.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_terminal::output_place::create_folder;

/// A hidden folder that nobody else uses meanwhile. It is removed at the end.
pub(super) struct HiddenFolder {
    path: PathBuf,
    _lock: File,
}

impl HiddenFolder {
    /// Takes a folder; none if another process has it. What a killed process left there is removed.
    ///
    /// # Errors
    /// It cannot be created or cleared.
    pub(super) fn take(path: &Path) -> Result<Option<Self>, CommandError> {
        let path = create_folder(path)?;
        let lock = File::open(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let folder = Self { path, _lock: lock };
        folder.clear()?;
        Ok(Some(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what is in it.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub(super) fn clear(&self) -> std::io::Result<()> {
        for entry in self.path.read_dir()? {
            fs::remove_dir_all(entry?.path())?;
        }
        Ok(())
    }
}

impl Drop for HiddenFolder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process that takes it.
        if self.clear().is_ok() {
            drop(fs::remove_dir(&self.path));
        }
    }
}
