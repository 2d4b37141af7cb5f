//! What counted in the workspace when the run began: it counts to the run's end.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::observe::Observed;
use super::session::Session;
use crate::store::{Layout, StateError, Store};
use crate::workspace::PinnedPaths;
use ralph_orchestrator_safe_fs::{escape, unescape};

/// As it is kept: JSON.
#[derive(Default, Serialize, Deserialize)]
struct StoredPaths {
    paths: BTreeSet<String>,
}

impl Session {
    /// Keeps the paths that count now for the run.
    pub(super) fn pin_paths(&mut self, observed: &Observed) -> Result<(), EngineError> {
        let Some(paths) = &observed.paths else { return Ok(()) };
        self.pinned = Arc::new(paths.iter().collect());
        if let Some(hasher) = &mut self.hasher {
            hasher.pin(Arc::clone(&self.pinned));
        }
        let kept = StoredPaths { paths: paths.iter().map(|path| escape(path)).collect() };
        let object = serde_json::to_string(&kept)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        self.store.write_signed_file(Layout::PATHS, &object)?;
        Ok(())
    }
}

/// What was kept of the run that goes on.
pub(super) fn read(store: &Store) -> Result<PinnedPaths, EngineError> {
    let Some(object) = store.read_signed_file(Layout::PATHS)? else {
        return Ok(PinnedPaths::default());
    };
    let kept: StoredPaths = serde_json::from_str(&object).map_err(|error| StateError::Damaged {
        path: Layout::PATHS.into(),
        problem: error.to_string(),
    })?;
    Ok(kept.paths.iter().filter_map(|path| unescape(path)).collect())
}
