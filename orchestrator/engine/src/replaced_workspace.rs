//! A folder that has taken the place of a run's workspace: the run goes on in it once a person has accepted it.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::FileIdentity;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{
    Disk, Layout, StateError, StoredRun, TrustStore, identity_of, read_current_run,
};
use ralph_orchestrator_workspace::{WorkspaceError, WorkspaceHandle};

use super::error::EngineError;
use super::location;
use super::paths::{is_of_other_folder, state_layout, states_dir};

/// The folder at the path of a run's workspace, which is not the one in which the run began: a copy of it, such
/// as from a backup or a new clone, or what was put there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedWorkspace {
    /// Its path.
    pub path: PathBuf,
    /// The run that would go on in it.
    pub run: String,
    /// Whether that is complete, so that nothing would be done in it.
    pub is_complete: bool,
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
        let is_own = path == real_path(loaded.configured_workspace());
        if is_own && !is_of_other_folder(loaded, &layout) {
            // As it was at the last start: the journal does not have to be read.
            return Ok(None);
        }
        let Some(found) = read_current_run(&layout, |_| {}).ok().flatten() else { return Ok(None) };
        let held = WorkspaceHandle::open(&path).ok();
        let replaced = Self::compare(loaded, &layout, held.as_ref(), &found);
        let store = TrustStore::new(&states_dir(state_home), Disk::default());
        match replaced {
            Some(replaced) if !replaced.is_accepted(&store)? => Ok(Some(replaced)),
            _ => Ok(None),
        }
    }

    /// Refuses another folder than the one in which a run began, unless a person has accepted it.
    ///
    /// # Errors
    /// It is another one; what was accepted is damaged.
    pub(super) fn refuse(
        loaded: &LoadedConfig,
        layout: &Layout,
        held: Option<&WorkspaceHandle>,
        found: &StoredRun,
        states: &Path,
    ) -> Result<(), EngineError> {
        let Some(replaced) = Self::compare(loaded, layout, held, found) else { return Ok(()) };
        match replaced.is_accepted(&TrustStore::new(states, Disk::default()))? {
            true => Ok(()),
            false => Err(replaced.error().into()),
        }
    }

    /// Returns the folder that is not the one in which the run began: that in which it works, or, where that is a worktree,
    /// that of which it is one.
    fn compare(
        loaded: &LoadedConfig,
        layout: &Layout,
        held: Option<&WorkspaceHandle>,
        found: &StoredRun,
    ) -> Option<Self> {
        let path = real_path(loaded.configured_workspace());
        let is_worktree = path != real_path(&loaded.config.run.workspace);
        let (run, is_complete) = (found.run.clone(), found.state.completion().is_some());
        if is_worktree && is_of_other_folder(loaded, layout) {
            let folder = identity_of(&path)?;
            return Some(Self { path, run, is_complete, folder });
        }
        let held = held?;
        location::compare(&found.state.identities, held).is_err().then(|| Self {
            path: held.path().to_owned(),
            run,
            is_complete,
            folder: location::folder_pin(held),
        })
    }

    /// Returns the error of what needs the folder in which the run began.
    #[must_use]
    pub fn error(&self) -> WorkspaceError {
        let path = self.path.clone();
        match self.is_complete {
            true => WorkspaceError::OtherCompleted { path, run: self.run.clone() },
            false => WorkspaceError::Other { path },
        }
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
        let FileIdentity { device, inode, made_ns } = self.folder;
        let made = made_ns.unwrap_or_default();
        format!("{} in {device}:{inode} of {made}", self.run)
    }
}
