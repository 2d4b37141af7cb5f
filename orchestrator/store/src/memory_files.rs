//! The files of what iterations left in words, in the state directory: over all of its runs.
//!
//! ```text
//! memory/state.json         the session that is open, and what the next agent is given
//! memory/before-<name>      a file of the workspace as it was before the iteration that runs
//! memory/phase-<name>       the same before checks, a setup or hooks run
//! memory/archive-<n>-<name> entries that were moved out of it, the oldest in the lowest number
//! memory/<name>             the progress file itself, if it is kept from the agent
//! ```

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::disk::Disk;
use super::error::StateError;
use super::key::Key;
use super::layout::Layout;

/// What the names of copies of the workspace's files begin with.
const COPIES: [&str; 2] = ["before-", "phase-"];

/// The files of the folder, each written whole or not at all.
#[derive(Clone, Debug)]
pub struct MemoryFiles {
    disk: Disk,
    layout: Layout,
}

impl MemoryFiles {
    /// The name of the file with the open session.
    pub const STATE: &str = "state.json";

    /// Returns the files of a state directory. Creates nothing.
    #[must_use]
    pub const fn new(disk: Disk, layout: Layout) -> Self {
        Self { disk, layout }
    }

    /// Returns where the file of this name is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.layout.memory().join(name)
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let path = self.path(name);
        let Some(content) = self.disk.read_if_exists(&path, usize::MAX)? else { return Ok(None) };
        let Some(key) = self.read_key()? else { return Ok(Some(content)) };
        // What another key sealed is of a state that is gone.
        Ok(key.unseal(&content).map(Cow::into_owned))
    }

    /// Reads what the agent of an iteration printed as errors; nothing if that is not stored.
    #[must_use]
    pub fn read_error_output(&self, run: &str, iteration: u64) -> Vec<u8> {
        let path = self.layout.iteration(run, iteration).join("stderr.log");
        self.disk.read(&path).unwrap_or_default()
    }

    /// Writes a file, durable.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), StateError> {
        self.disk.restore_dir(self.layout.root(), &self.layout.memory())?;
        // What the workspace had is put back byte for byte, secrets included.
        let is_copy = COPIES.iter().any(|prefix| name.starts_with(prefix));
        match self.read_key()?.filter(|_| is_copy) {
            Some(key) => self.disk.write_private(&self.path(name), &key.seal(content)?),
            None => self.disk.write_private(&self.path(name), content),
        }
    }

    fn read_key(&self) -> Result<Option<Key>, StateError> {
        Key::read(&self.disk, &self.layout.key())
    }

    /// Reads what is stored about sessions; the default if nothing is, or if it cannot be understood.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_state<T: DeserializeOwned + Default>(&self) -> Result<T, StateError> {
        let stored = self.read(Self::STATE)?;
        Ok(stored.and_then(|stored| serde_json::from_slice(&stored).ok()).unwrap_or_default())
    }

    /// Stores what is known about sessions.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_state<T: Serialize>(&self, state: &T) -> Result<(), StateError> {
        let path = self.path(Self::STATE);
        let content = serde_json::to_vec(state)
            .map_err(|error| StateError::io("write", &path)(io::Error::other(error)))?;
        self.write(Self::STATE, &content)
    }

    /// Returns the number of the newest archive of a file; 0 without one.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn newest_archive(&self, name: &str) -> Result<u64, StateError> {
        let folder = self.layout.memory();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            read => read.map_err(StateError::io("list", &folder))?,
        };
        let number = |entry: fs::DirEntry| {
            let file = entry.file_name().into_string().ok()?;
            let (number, of) = file.strip_prefix("archive-")?.split_once('-')?;
            number.parse::<u64>().ok().filter(|_| of == name)
        };
        Ok(entries.flatten().filter_map(number).max().unwrap_or(0))
    }

    /// Returns the name of an archive of a file.
    #[must_use]
    pub fn archive_name(number: u64, name: &str) -> String {
        format!("archive-{number:06}-{name}")
    }
}
