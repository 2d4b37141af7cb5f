//! The last sign of life of whoever works on a run: its runtime, between two records that say so.
//!
//! It is written in place, unsynced and outside the journal, so that it costs next to nothing. What cannot be
//! written or read is left out: then a kill loses the runtime since the last record.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use super::disk::{Disk, private_open_flags};
use super::key::Key;
use super::layout::Layout;
use super::lock::Lock;
use crate::stored_run::StoredRun;

/// Larger than any such file, in bytes.
const LARGEST: usize = 256;

/// Writes the signs of life of a run.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    path: PathBuf,
    run: String,
    key: Key,
}

impl Heartbeat {
    pub(super) fn new(layout: &Layout, run: &str, key: &Key) -> Self {
        Self { path: layout.heartbeat(run), run: run.to_owned(), key: key.clone() }
    }

    /// Writes the runtime so far, over what was written before.
    pub fn write(&self, runtime_ms: u64) {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(private_open_flags());
        // Not past the faults of tests: it comes at any time.
        if let Ok(file) = Disk::default().open(&self.path, &options) {
            drop(file.inner().write_all_at(self.line(runtime_ms).as_bytes(), 0));
        }
    }

    fn read(&self) -> Option<u64> {
        let bytes = Disk::default().read_at_most(&self.path, LARGEST).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let runtime_ms = text.split_once(' ')?.0.parse().ok()?;
        (text == self.line(runtime_ms)).then_some(runtime_ms)
    }

    /// Always of the same length, and signed: the agent must not be able to use up the run's time.
    fn line(&self, runtime_ms: u64) -> String {
        let code = self.key.code(format!("heartbeat {} {runtime_ms}", self.run).as_bytes());
        format!("{runtime_ms:020} {}\n", code.to_hex())
    }

    /// Charges a run that nobody holds with the time up to its last sign of life.
    pub(super) fn charge(&self, found: &mut StoredRun) {
        let runtime_ms = &mut found.state.budget.runtime_ms;
        *runtime_ms = (*runtime_ms).max(self.read().unwrap_or_default());
    }

    /// Does the same unless somebody holds the run.
    pub(super) fn charge_if_ended(&self, layout: &Layout, found: &mut StoredRun) {
        let is_behind = self.read().is_some_and(|ms| ms > found.state.budget.runtime_ms);
        if is_behind && Lock::holder(layout).is_none() {
            self.charge(found);
        }
    }
}
