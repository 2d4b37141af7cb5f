//! What rollbacks have stored, and the one that is going on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::StateError;
use super::key::Key;
use super::layout::Layout;
use super::signed_line;

/// Larger than any such file, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// A rollback that has begun to change files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRollback {
    /// The run.
    pub run: String,
    /// The checkpoint whose files are restored, as `rollback --to` takes it.
    pub to: String,
}

/// The signed record of rollbacks: no journal has them, since a rollback is none of the run's own doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollbacks {
    /// The commit of each checkpoint that was made before a rollback, by run and number.
    #[serde(default)]
    saved: BTreeMap<String, BTreeMap<u64, String>>,
    /// The one that is going on, or was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingRollback>,
}

impl Rollbacks {
    /// Reads the record; an empty one if there is none.
    ///
    /// # Errors
    /// It cannot be read, or was changed from outside.
    pub fn read(disk: &Disk, layout: &Layout) -> Result<Self, StateError> {
        let path = layout.rollbacks();
        let Some(bytes) = disk.read_if_exists(&path, LARGEST)? else { return Ok(Self::default()) };
        let changed = || StateError::damaged(&path, "was changed from outside");
        let key = Key::read(disk, &layout.key())?.ok_or_else(changed)?;
        let text = String::from_utf8(bytes).map_err(|_| changed())?;
        let line = text.strip_suffix('\n').ok_or_else(changed)?;
        signed_line::verify(&key, line).ok_or_else(changed)?;
        serde_json::from_str(line).map_err(|error| {
            StateError::damaged(&path, format!("is no record of rollbacks: {error}"))
        })
    }

    /// Stores the record durably. The lock of the state has to be held.
    ///
    /// # Errors
    /// It cannot be written, or the state has no key: there is no run in it.
    pub fn write(&self, disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        let key = Key::read(disk, &layout.key())?
            .ok_or_else(|| StateError::damaged(&layout.key(), "the key of this state is gone"))?;
        let object = serde_json::to_string(self).unwrap_or_default();
        let (line, _) = signed_line::sign(&key, &object);
        disk.write_private(&layout.rollbacks(), format!("{line}\n").as_bytes())
    }

    /// Returns the commits of the checkpoints that were made before rollbacks of a run, by number.
    #[must_use]
    pub fn saved_of(&self, run: &str) -> BTreeMap<u64, String> {
        self.saved.get(run).cloned().unwrap_or_default()
    }

    /// Adds the commit of a checkpoint that was made before a rollback.
    pub fn add_saved(&mut self, run: &str, number: u64, commit: String) {
        self.saved.entry(run.to_owned()).or_default().insert(number, commit);
    }
}
