//! The list of runs, of which only those are read again that have changed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use ralph_orchestrator_core::store::{Holder, Lock, StateDir};
use serde_json::Value;

use crate::commands::runs::all_workspaces::RowReader;
use crate::workspace_selection::all_states;

/// The runs as they were read last, by their state directories.
#[derive(Default)]
pub(super) struct Listing {
    known: HashMap<PathBuf, Known>,
}

struct Known {
    version: Version,
    /// Of an active run, which is read often: what is appended to it is read alone.
    reader: Option<RowReader>,
    order: (bool, Option<Timestamp>),
    object: Value,
}

/// What changes whenever a run does.
#[derive(PartialEq, Eq)]
struct Version {
    holder: Option<Holder>,
    latch: Option<(u64, SystemTime)>,
    journal: Option<(u64, SystemTime)>,
}

impl Version {
    fn read(state: &StateDir) -> Self {
        let of = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        let journal = state.run().and_then(|run| of(&state.layout.journal(&run)));
        Self { holder: Lock::holder(&state.layout), latch: of(&state.layout.latch()), journal }
    }
}

impl Known {
    fn read(state: &StateDir, version: Version, reader: Option<RowReader>) -> Option<Self> {
        let mut reader = reader.unwrap_or_else(|| RowReader::new(&state.layout));
        let row = reader.read(state)?;
        let reader = Some(reader).filter(|_| row.is_active() && !row.is_damaged());
        Some(Self { version, reader, order: row.order(), object: row.object() })
    }
}

impl Listing {
    /// Returns the runs as `runs --all --json` prints them: the active ones first, then the newest.
    pub(super) fn read(&mut self) -> Vec<Value> {
        let mut before = std::mem::take(&mut self.known);
        for state in all_states() {
            let root = state.layout.root().to_owned();
            let version = Version::read(&state);
            let known = match before.remove(&root) {
                Some(known) if known.version == version => Some(known),
                known => Known::read(&state, version, known.and_then(|known| known.reader)),
            };
            if let Some(known) = known {
                self.known.insert(root, known);
            }
        }
        let mut rows: Vec<&Known> = self.known.values().collect();
        rows.sort_by_key(|known| Reverse(known.order));
        rows.into_iter().map(|known| known.object.clone()).collect()
    }
}
