//! The paths that counted in the workspace when the run began: they count to the run's end.

use std::sync::Arc;

use ralph_orchestrator_safe_fs::{escape, unescape};
use ralph_orchestrator_store::{Layout, StateError, Store};
use ralph_orchestrator_workspace::{PinnedPaths, TreeSnapshot};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::observation::WorkspaceObserver;

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
        let object = serde_json::to_string(&stored)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        if self.context.redactor.bytes(object.as_bytes()) == object.as_bytes() {
            store.write_signed_file(Layout::PATHS, &object)?;
        } else {
            store.write_sealed_file(Layout::PATHS, &object)?;
        }
        Ok(())
    }
}

/// Reads the stored paths of a run that is resumed.
pub(super) fn read(store: &Store) -> Result<PinnedPaths, EngineError> {
    let Some(object) = store.read_signed_file(Layout::PATHS)? else {
        return Ok(PinnedPaths::default());
    };
    let stored: StoredPaths = serde_json::from_str(&object).map_err(|error| {
        StateError::Damaged { path: Layout::PATHS.into(), problem: error.to_string() }
    })?;
    Ok(stored.paths.iter().filter_map(|path| unescape(path)).collect())
}
