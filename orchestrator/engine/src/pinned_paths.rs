//! The paths that counted in the workspace when the run began: they count to the run's end.

use std::sync::Arc;

use ralph_orchestrator_safe_fs::{escape, unescape};
use ralph_orchestrator_store::{Layout, StateError, Store};
use ralph_orchestrator_workspace::{PinnedPaths, TreeSnapshot};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::observation::WorkspaceObserver;
use super::stored_object::{read_closed_object, read_object, store_object};

/// The stored form, in JSON.
#[derive(Default, Serialize, Deserialize)]
struct StoredPaths {
    paths: Vec<String>,
}

impl WorkspaceObserver {
    /// Stores the paths that count now for the run.
    pub(super) fn pin_paths(
        &mut self,
        store: &mut Store,
        snapshot: &TreeSnapshot,
    ) -> Result<(), EngineError> {
        self.pinned = Arc::new(snapshot.paths().collect());
        if let Some(hasher) = &mut self.hasher {
            hasher.pin(Arc::clone(&self.pinned));
        }
        let stored = StoredPaths { paths: snapshot.paths().map(escape).collect() };
        store_object(store, &self.context.redactor, Layout::PATHS, &stored)
    }
}

/// Reads the stored paths of a run that is resumed.
pub(super) fn read(store: &Store) -> Result<PinnedPaths, EngineError> {
    let stored = read_object::<StoredPaths>(store, Layout::PATHS)?.unwrap_or_default();
    Ok(stored.into_pinned())
}

/// Reads the stored paths of a run that is not open.
pub(super) fn read_closed(layout: &Layout, run: &str) -> Result<PinnedPaths, StateError> {
    let stored = read_closed_object::<StoredPaths>(layout, run, Layout::PATHS)?;
    Ok(stored.unwrap_or_default().into_pinned())
}

impl StoredPaths {
    fn into_pinned(self) -> PinnedPaths {
        self.paths.iter().filter_map(|path| unescape(path)).collect()
    }
}
