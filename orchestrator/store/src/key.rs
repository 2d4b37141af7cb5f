//! The key of a state directory.

use std::fmt;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::StateError;
use super::guarded_file::GuardedFile;

const BYTES: usize = 32;
/// Larger than any key, in bytes.
const LARGEST: usize = 4096;

/// Keys the journal's chain and the latch, so that files of another state directory, or written by
/// something that does not know it, are told apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// Creates a random key, written to `path` for its owner only.
    ///
    /// # Errors
    /// The system has no random numbers, or the file cannot be written.
    pub fn create(disk: &Disk, path: &Path) -> Result<Self, StateError> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(StateError::io("make", path))?;
        let key = Self(bytes);
        key.write(disk, path)?;
        Ok(key)
    }

    /// Writes the key.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, disk: &Disk, path: &Path) -> Result<(), StateError> {
        disk.write_private(path, &self.0)
    }

    /// Returns the key in `path`; `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or is no key.
    pub fn read(disk: &Disk, path: &Path) -> Result<Option<Self>, StateError> {
        let Some(bytes) = disk.read_if_exists(path, LARGEST)? else { return Ok(None) };
        match <[u8; BYTES]>::try_from(bytes) {
            Ok(bytes) => Ok(Some(Self(bytes))),
            Err(other) => Err(StateError::damaged(
                path,
                format!("a key has {BYTES} bytes, this file has {}", other.len()),
            )),
        }
    }

    /// Returns the code of `text` under this key.
    pub(super) fn code(&self, text: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.0, text)
    }

    /// Returns another key for one purpose.
    pub(super) fn derive(&self, context: &str) -> [u8; BYTES] {
        blake3::derive_key(context, &self.0)
    }

    /// Returns the file with this key, to be kept as it is.
    pub(super) fn kept(&self, disk: &Disk, path: PathBuf) -> Result<GuardedFile, StateError> {
        GuardedFile::new(disk, path, &self.0)
    }
}
