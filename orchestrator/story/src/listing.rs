//! The list of runs, of which only those are read again that have changed, and active ones only as far as they have
//! grown.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use ralph_orchestrator_store::{Holder, Lock, StateDir};
use serde_json::Value;

use crate::current_run::{CurrentRun, CurrentRunReader};

/// The runs as they were read last, by their state directories.
#[derive(Default)]
pub struct Listing {
    known: HashMap<PathBuf, Known>,
}

struct Known {
    version: Version,
    order: (bool, Option<Timestamp>),
    listed: ListedRun,
    /// Of an active run, which is read again soon.
    reader: Option<CurrentRunReader>,
}

/// A run of the list.
pub struct ListedRun {
    /// The state directory.
    pub state_dir: StateDir,
    /// The run's id.
    pub run: String,
    /// Its workspace, and its task or configuration.
    pub name: String,
    /// The same with the last part of the path only.
    pub short_name: String,
    /// The word that `status` has for its phase.
    pub phase: &'static str,
    /// Its iterations; `None` if it cannot be read.
    pub iterations: Option<u64>,
    /// Its provider lets nothing through for a while.
    pub is_deferred: bool,
    /// As `runs --all --json` prints it.
    pub object: Value,
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
    fn read(state: &StateDir, version: Version, reader: Option<CurrentRunReader>) -> Option<Self> {
        let mut reader = reader.unwrap_or_else(|| CurrentRunReader::new(state));
        let row = reader.read(state)?;
        let is_active = version.holder.is_some() && !row.is_damaged();
        let (order, listed) = (row.order(), ListedRun::of(&row));
        Some(Self { version, order, listed, reader: is_active.then_some(reader) })
    }
}

impl ListedRun {
    fn of(row: &CurrentRun) -> Self {
        let state = row.state();
        Self {
            state_dir: row.state_dir().clone(),
            run: row.run().to_owned(),
            name: row.workspace(),
            short_name: row.short_workspace(),
            phase: row.phase(),
            iterations: state.map(|state| state.iterations),
            is_deferred: state.is_some_and(|state| state.waiting.is_some()),
            object: row.object(),
        }
    }
}

impl Listing {
    /// Returns the runs of these state directories as `runs --all` lists them: the active ones first, then the newest.
    pub fn read(&mut self, states: Vec<StateDir>) -> Vec<&ListedRun> {
        let mut before = std::mem::take(&mut self.known);
        for state in states {
            let root = state.layout.root().to_owned();
            let version = Version::read(&state);
            let known = match before.remove(&root) {
                Some(known) if known.version == version => Some(known),
                Some(known) => Known::read(&state, version, known.reader),
                None => Known::read(&state, version, None),
            };
            if let Some(known) = known {
                self.known.insert(root, known);
            }
        }
        let mut rows: Vec<&Known> = self.known.values().collect();
        rows.sort_by_key(|known| Reverse(known.order));
        rows.into_iter().map(|known| &known.listed).collect()
    }
}
