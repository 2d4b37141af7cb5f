//! A series of runs in one state directory: what they have in common, recorded beside them.
//!
//! ```text
//! series/lock            held by whoever works on the series, or edits what it is made of
//! series/journal.jsonl   signed and chained as the journal of a run
//! series/<name>          signed files
//! ```

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;

use super::disk::{Disk, File};
use super::error::StateError;
use super::journal::{self, Journal, JournalEntry, JournalRecord};
use super::key::Key;
use super::layout::Layout;
use super::{lock, signed_line};
use crate::holder::{Holder, Work};

const JOURNAL: &str = "journal.jsonl";

/// The lock of a series; released when dropped, or by the system when the process dies.
#[derive(Debug)]
pub struct SeriesLock {
    _file: File,
}

impl SeriesLock {
    /// Takes the lock. The state directory is created if there is none.
    ///
    /// # Errors
    /// [`StateError::Busy`] if another process has it, or the system refuses.
    pub fn take(disk: &Disk, layout: &Layout) -> Result<Self, StateError> {
        disk.open_root(layout.root())?;
        disk.restore_dir(layout.root(), &layout.series())?;
        let path = lock_path(layout);
        let file = lock::open(disk, &path)?;
        lock::try_lock(file.inner(), &path)?;
        let holder = Holder::this_process(Work::Run);
        lock::write_to(&file, &holder).map_err(StateError::io("write", &path))?;
        Ok(Self { _file: file })
    }

    /// Returns who works on the series now, if anybody does.
    #[must_use]
    pub fn holder(layout: &Layout) -> Option<Holder> {
        lock::holder_of(&lock_path(layout))
    }
}

fn lock_path(layout: &Layout) -> PathBuf {
    layout.series().join("lock")
}

/// The signed files of a series, beside its record.
#[derive(Clone, Debug)]
pub struct SeriesFiles {
    disk: Disk,
    layout: Layout,
    key: Key,
}

impl SeriesFiles {
    /// Returns the files of a state directory; `None` as long as it has no key: nothing has begun in it.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn open(disk: &Disk, layout: &Layout) -> Result<Option<Self>, StateError> {
        let key = Key::read(disk, &layout.key())?;
        Ok(key.map(|key| Self { disk: disk.clone(), layout: layout.clone(), key }))
    }

    /// Stores bytes under this name, signed and durable, in place of those before.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        let mut content = self.key.code(bytes).to_hex().as_bytes().to_vec();
        content.push(b'\n');
        content.extend_from_slice(bytes);
        self.disk.restore_dir(self.layout.root(), &self.layout.series())?;
        self.disk.write_private(&self.path(name), &content)
    }

    /// Stores bytes as they are, for processes that read them. They are no part of the state.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_plain(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.disk.restore_dir(self.layout.root(), &self.layout.series())?;
        self.disk.write_private(&self.path(name), bytes)
    }

    /// Stores bytes that may have secrets in them and are needed again as they are.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_sealed(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.write(name, &self.key.seal(bytes)?)
    }

    /// Reads the bytes that are stored under this name; `None` if there are none.
    ///
    /// # Errors
    /// They cannot be read, or were changed from outside.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let path = self.path(name);
        let Some(content) = self.disk.read_if_exists(&path, usize::MAX)? else { return Ok(None) };
        let changed = || StateError::damaged(&path, "was changed from outside");
        let (code, rest) = content.split_at_checked(signed_line::HEX).ok_or_else(changed)?;
        let bytes = rest.strip_prefix(b"\n").ok_or_else(changed)?;
        let is_ours = blake3::Hash::from_hex(code).is_ok_and(|code| code == self.key.code(bytes));
        let unsealed = is_ours.then(|| self.key.unseal(bytes)).flatten();
        unsealed.map(|bytes| Some(bytes.into_owned())).ok_or_else(changed)
    }

    /// Removes what is stored under this name, if anything is.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), StateError> {
        self.disk.remove_private(&self.path(name))
    }

    /// Returns the names that begin like this, sorted.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, StateError> {
        let folder = self.layout.series();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(StateError::io("list", &folder))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.layout.series().join(name)
    }
}

/// The record of a series, open to be continued.
#[derive(Debug)]
pub struct Series {
    journal: Journal,
}

impl Series {
    /// Opens the record, creating it if there is none. Hands each entry that is there to `each`. `None`
    /// as long as the state directory has no key: nothing has begun in it. The lock has to be held.
    ///
    /// # Errors
    /// It is damaged, or cannot be read or written.
    pub fn open<R: JournalRecord>(
        disk: &Disk,
        layout: &Layout,
        each: impl FnMut(JournalEntry<R>),
    ) -> Result<Option<Self>, StateError> {
        let Some(key) = Key::read(disk, &layout.key())? else { return Ok(None) };
        disk.restore_dir(layout.root(), &layout.series())?;
        let path = layout.series().join(JOURNAL);
        let journal = if path.symlink_metadata().is_ok() {
            Journal::open(disk, &path, &key, each)?.0
        } else {
            let journal = Journal::create(disk, &path, &key)?;
            for folder in [layout.series().as_path(), layout.root()] {
                disk.sync_folder(folder).map_err(StateError::io("sync", folder))?;
            }
            journal
        };
        Ok(Some(Self { journal: journal.in_state(layout.root()) }))
    }

    /// Removes the record, damaged or not.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        let path = layout.series().join(JOURNAL);
        disk.remove_file(&path).map_err(StateError::io("remove", &path))
    }

    /// Appends a record. Returns whether the file had been changed from outside and was written again.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&mut self, record: &impl JournalRecord) -> Result<bool, StateError> {
        let restored = self.journal.restore_if_changed()?;
        self.journal.append(Timestamp::now(), record)?;
        Ok(restored)
    }
}

/// Reads the record of a series without taking a lock or changing anything. Returns whether there is one.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn read_series<R: JournalRecord>(
    layout: &Layout,
    each: impl FnMut(JournalEntry<R>),
) -> Result<bool, StateError> {
    let disk = &Disk::default();
    let path = layout.series().join(JOURNAL);
    if path.symlink_metadata().is_err() {
        return Ok(false);
    }
    let Some(key) = Key::read(disk, &layout.key())? else {
        return Err(StateError::damaged(&layout.key(), "the key of this state is gone"));
    };
    journal::read_journal(disk, &path, &key, each)?;
    Ok(true)
}
