//! The latch file.

use std::path::{Path, PathBuf};

use ralph_orchestrator_machine::Latch;
use serde::{Deserialize, Serialize};

use super::atomic_files::NewFile;
use super::disk::{Disk, File};
use super::error::StateError;
use super::guarded_file::GuardedFile;
use super::key::Key;
use super::signed_line;

const VERSION: u32 = 1;
/// Larger than any latch, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// Names the run of a state directory and how far its completion has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatchFile {
    /// Version of the format.
    pub version: u32,
    /// The run.
    pub run: String,
    /// The journal has at least this many records.
    pub seq: u64,
    /// The latch.
    pub latch: Latch,
}

impl LatchFile {
    /// Creates the latch for a run whose journal has `seq` records.
    #[must_use]
    pub fn new(run: &str, seq: u64, latch: Latch) -> Self {
        Self { version: VERSION, run: run.to_owned(), seq, latch }
    }

    /// Returns the signed line that is written for it.
    fn to_signed_line(&self, key: &Key) -> String {
        let object = serde_json::to_string(self).unwrap_or_default();
        let (mut text, _) = signed_line::sign(key, &object);
        text.push('\n');
        text
    }

    /// Writes it, whole and safely.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, disk: &Disk, key: &Key, path: &Path) -> Result<(), StateError> {
        disk.write_private(path, self.to_signed_line(key).as_bytes())
    }

    /// Writes it beside its place, where it is safe once its file is synced.
    pub(super) fn write_aside(
        &self,
        disk: &Disk,
        key: &Key,
        path: &Path,
    ) -> Result<(NewFile, File), StateError> {
        disk.write_aside(path, self.to_signed_line(key).as_bytes())
    }

    /// Returns the file with this content, to be kept as it is.
    pub(super) fn kept(
        &self,
        disk: &Disk,
        key: &Key,
        path: PathBuf,
    ) -> Result<GuardedFile, StateError> {
        GuardedFile::new(disk, path, self.to_signed_line(key).as_bytes())
    }

    /// Reads it; `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by this orchestrator.
    pub fn read(disk: &Disk, key: &Key, path: &Path) -> Result<Option<Self>, StateError> {
        let Some(bytes) = disk.read_if_exists(path, LARGEST)? else { return Ok(None) };
        let broken = || StateError::damaged(path, "the latch was changed from outside");
        let text = String::from_utf8(bytes).map_err(|_| broken())?;
        let line = text.strip_suffix('\n').ok_or_else(broken)?;
        signed_line::verify(key, line).ok_or_else(broken)?;
        let latch: Self = serde_json::from_str(line)
            .map_err(|error| StateError::damaged(path, format!("not a latch: {error}")))?;
        if latch.version > VERSION {
            return Err(StateError::damaged(
                path,
                format!("written by a newer version (format {})", latch.version),
            ));
        }
        Ok(Some(latch))
    }
}
