//! A folder that has taken the place of a run's workspace: the run goes on in it once a person has accepted it. From then on
//! the folder in which it began is such a one.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::FileIdentity;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{
    Disk, Layout, Lock, Owner, StateError, StoredRun, TrustStore, identity_of, read_current_run,
};
use ralph_orchestrator_workspace::{WorkspaceError, WorkspaceHandle};

use super::error::EngineError;
use super::location;
use super::paths::{find_successor, is_of_other_folder, state_layout, state_owner, states_dir};

/// A folder that is not the one in which a run goes on: at the path of its workspace a copy of that, such as from a backup or
/// a new clone, or what was put there instead; or the one in whose place a person has accepted another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedWorkspace {
    /// Its path.
    pub path: PathBuf,
    /// The run that would go on in it.
    pub run: String,
    /// Whether that is complete, so that nothing would be done in it.
    pub is_complete: bool,
    /// The folder that was accepted in its place, where that was last.
    pub successor: Option<PathBuf>,
    folder: FileIdentity,
    layout: Layout,
    /// Whose the state is once the folder is accepted.
    owner: Owner,
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

    /// Returns the folder that is not the one in which the run goes on: that in which it works, or, where that is a worktree,
    /// that of which it is one.
    fn compare(
        loaded: &LoadedConfig,
        layout: &Layout,
        held: Option<&WorkspaceHandle>,
        found: &StoredRun,
    ) -> Option<Self> {
        let path = real_path(loaded.configured_workspace());
        let is_worktree = path != real_path(&loaded.config.run.workspace);
        let successor = find_successor(loaded, layout);
        let is_other = (is_worktree || successor.is_some()) && is_of_other_folder(loaded, layout);
        let (path, folder) = match held {
            _ if is_other => {
                let folder = identity_of(&path)?;
                (path, folder)
            }
            Some(held) if location::compare(&found.state.identities, held).is_err() => {
                (held.path().to_owned(), location::folder_pin(held))
            }
            _ => return None,
        };
        Some(Self {
            path,
            run: found.run.clone(),
            is_complete: found.state.completion().is_some(),
            successor,
            folder,
            layout: layout.clone(),
            owner: state_owner(loaded, layout),
        })
    }

    /// Returns the error of what needs the folder in which the run goes on.
    #[must_use]
    pub fn error(&self) -> WorkspaceError {
        let (path, run) = (self.path.clone(), self.run.clone());
        match &self.successor {
            Some(there) => WorkspaceError::Succeeded { path, run, there: there.clone() },
            None if self.is_complete => WorkspaceError::OtherCompleted { path, run },
            None => WorkspaceError::Other { path },
        }
    }

    /// Records that a person accepts the folder as the run's. The one that had the run has it no more, wherever it is.
    ///
    /// # Errors
    /// The run is active; it cannot be written.
    pub fn accept(&self, states: &Path) -> Result<(), StateError> {
        if let Some(holder) = Lock::holder(&self.layout) {
            return Err(StateError::Busy { holder });
        }
        let disk = Disk::default();
        TrustStore::new(states, disk.clone()).accept(&self.path, &self.digest(), "")?;
        if let Some(before) = Owner::read(&self.layout)? {
            let owner = self.owner.clone().keep_configuration(&before).take_over(&before);
            owner.record(&disk, &self.layout)?;
        }
        Ok(())
    }

    /// Whether a person has accepted this folder last.
    fn is_accepted(&self, store: &TrustStore) -> Result<bool, StateError> {
        if self.successor.is_some() {
            return Ok(false);
        }
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
