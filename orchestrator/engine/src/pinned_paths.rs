//! The paths that counted in the workspace when the run began, and the ignore rules around it: both hold to the run's end.

use std::sync::Arc;

use ralph_orchestrator_safe_fs::{escape, unescape};
use ralph_orchestrator_store::{Layout, StateError, Store};
use ralph_orchestrator_workspace::{
    OuterRules, PinnedPaths, TreeSnapshot, Uncommitted, UncommittedReason,
};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::observation::WorkspaceObserver;
use super::stored_object::{read_closed_object, read_object, store_object};

/// The stored form, in JSON.
#[derive(Default, Serialize, Deserialize)]
struct StoredPaths {
    paths: Vec<String>,
    /// The ignore rules around the workspace.
    #[serde(default)]
    outer: Option<OuterRules>,
    /// What a commit would not have carried.
    #[serde(default)]
    uncommitted: Vec<(String, UncommittedReason)>,
    /// Folders in which nothing counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
}

impl WorkspaceObserver {
    /// Stores the paths that count now for the run.
    pub(super) fn pin_paths(
        &mut self,
        store: &mut Store,
        snapshot: &TreeSnapshot,
    ) -> Result<(), EngineError> {
        let outer = self.hasher.as_ref().map(|hasher| hasher.outer_rules().clone());
        let paths: PinnedPaths = snapshot.paths().collect();
        let found = snapshot.uncommitted().to_vec();
        let uncommitted = found.iter().map(|one| (escape(&one.path), one.reason.clone())).collect();
        let folders = snapshot.ignored_folders();
        let ignored = folders.iter().map(|folder| escape(folder)).collect();
        let pinned = paths
            .with_outer_rules(outer.clone())
            .with_uncommitted(found)
            .with_ignored_folders(folders.to_vec());
        self.pinned = Arc::new(pinned);
        if let Some(hasher) = &mut self.hasher {
            hasher.pin(Arc::clone(&self.pinned));
        }
        let paths = snapshot.paths().map(escape).collect();
        let stored = StoredPaths { paths, outer, uncommitted, ignored };
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
        let paths: PinnedPaths = self.paths.iter().filter_map(|path| unescape(path)).collect();
        let uncommitted = self
            .uncommitted
            .into_iter()
            .filter_map(|(path, reason)| Some(Uncommitted { path: unescape(&path)?, reason }));
        let ignored = self.ignored.iter().filter_map(|folder| unescape(folder)).collect();
        paths
            .with_outer_rules(self.outer)
            .with_uncommitted(uncommitted.collect())
            .with_ignored_folders(ignored)
    }
}
