//! A folder that has taken the place of a run's workspace: the run goes on in it once a person has accepted it.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::FileIdentity;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{
    Disk, Owner, StateError, StoredRun, TrustStore, identity_of, read_current_run,
};
use ralph_orchestrator_workspace::{WorkspaceError, WorkspaceHandle};

use super::error::EngineError;
use super::location;
use super::paths::{state_layout, states_dir};

/// The folder at the path of a run's workspace, which is not the one in which the run began: a copy of it, such
/// as from a backup or a new clone, or what was put there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedWorkspace {
    /// Its path.
    pub path: PathBuf,
    /// The run that would go on in it.
    pub run: String,
    folder: FileIdentity,
}

impl ReplacedWorkspace {
    /// Finds it, unless a person has accepted it. What else keeps the run from going on is left to its start.
    ///
    /// # Errors
    /// The configuration names no state directory that could be used; what was accepted is damaged.
    pub fn find(loaded: &LoadedConfig, state_home: &Path) -> Result<Option<Self>, EngineError> {
        let layout = state_layout(loaded, state_home)?;
        let path = real_path(&loaded.config.run.workspace);
        let Some(folder) = identity_of(&path) else { return Ok(None) };
        let owner = Owner::read(&layout).ok().flatten();
        if owner.is_none_or(|owner| owner.folder() == Some(folder)) {
            // As it was at the last start: the journal does not have to be read.
            return Ok(None);
        }
        let Some(found) = read_current_run(&layout, |_| {}).ok().flatten() else { return Ok(None) };
        let Ok(held) = WorkspaceHandle::open(&path) else { return Ok(None) };
        let is_same = location::compare(&found.state.identities, &held).is_ok();
        if is_same {
            return Ok(None);
        }
        let replaced = Self { path, run: found.run, folder };
        let store = TrustStore::new(&states_dir(state_home), Disk::default());
        Ok((!replaced.is_accepted(&store)?).then_some(replaced))
    }

    /// Refuses another folder than the one in which a run began, unless a person has accepted it.
    ///
    /// # Errors
    /// It is another one; what was accepted is damaged.
    pub(super) fn refuse(
        held: &WorkspaceHandle,
        found: &StoredRun,
        states: &Path,
    ) -> Result<(), EngineError> {
        let Err(other) = location::compare(&found.state.identities, held) else { return Ok(()) };
        let store = TrustStore::new(states, Disk::default());
        match Self::held(held, &found.run).is_accepted(&store)? {
            true => Ok(()),
            false => Err(other.into()),
        }
    }

    /// Returns the folder that a start has opened, in which this run is to go on.
    fn held(held: &WorkspaceHandle, run: &str) -> Self {
        let (path, folder) = (held.path().to_owned(), location::file_pin(held.id()));
        Self { path, run: run.to_owned(), folder }
    }

    /// Returns the error of what needs the folder in which the run began.
    #[must_use]
    pub fn error(&self) -> WorkspaceError {
        WorkspaceError::Other { path: self.path.clone() }
    }

    /// Records that a person accepts the folder as the run's.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn accept(&self, states: &Path) -> Result<(), StateError> {
        TrustStore::new(states, Disk::default()).accept(&self.path, &self.digest(), "")
    }

    /// Whether a person has accepted this folder last.
    fn is_accepted(&self, store: &TrustStore) -> Result<bool, StateError> {
        let accepted = store.accepted(&self.path)?;
        let last = accepted.as_ref().and_then(|accepted| accepted.versions.last());
        Ok(last.is_some_and(|version| version.digest == self.digest()))
    }

    fn digest(&self) -> String {
        let FileIdentity { device, inode } = self.folder;
        format!("{} in {device}:{inode}", self.run)
    }
}
