//! The state of a series whose runs have states of their own: held so that nobody else works on it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_store::{Disk, Layout, OrphanReport, Store, lock_workspace};
use ralph_orchestrator_workspace::WorkspaceHandle;

use super::error::EngineError;
use super::paths::{state_owner, states_dir};

/// The locks of a state directory and of a workspace in which no run works itself.
#[derive(Debug)]
pub struct HeldState {
    _store: Store,
    _workspace: Arc<File>,
}

impl HeldState {
    /// Takes both, makes the state directory if there is none, and records whose it is.
    ///
    /// # Errors
    /// Somebody else has one of them, or they cannot be used.
    pub fn take(
        loaded: &LoadedConfig,
        layout: &Layout,
        state_home: &Path,
    ) -> Result<Self, EngineError> {
        let disk = Disk::default();
        let mut store = Store::open_with_disk(disk.clone(), layout.clone())?;
        // What a killed start left of its runs is theirs to end.
        store.end_orphans(None, &|_| OrphanReport::default());
        store.set_owner(&state_owner(loaded, layout))?;
        let held = WorkspaceHandle::open(&loaded.config.run.workspace)?;
        let workspace = lock_workspace(&disk, held.folder(), &states_dir(state_home))?;
        Ok(Self { _store: store, _workspace: workspace })
    }
}
