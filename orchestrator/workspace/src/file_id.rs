//! What tells a file or folder from another, whatever path leads to it.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use ralph_orchestrator_safe_fs::FileFingerprint;

/// A file or folder, as the system tells it from all others that are there at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The device that it lies on. May have another number after the machine was started again.
    pub device: u64,
    /// Its number on the device. Given to another one once it was deleted.
    pub inode: u64,
}

impl FileId {
    /// Returns the identity of an open file or folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn from_file(file: &File) -> std::io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    pub(crate) const fn from_fingerprint(fingerprint: &FileFingerprint) -> Self {
        Self { device: fingerprint.dev, inode: fingerprint.ino }
    }
}
