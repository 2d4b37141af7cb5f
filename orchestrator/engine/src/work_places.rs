//! Where agents can write once a run has begun: what is there is obeyed from then on only as a person has accepted it.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{LoadedConfig, SandboxMode, SandboxWorkspace};
use ralph_orchestrator_safe_fs::{normalize_lexically, real_path};
use ralph_orchestrator_store::{StateError, TrustStore};

use super::request::Request;

/// The places where the agents of a start can write.
pub(super) struct WorkPlaces {
    trust: TrustStore,
    places: Vec<PathBuf>,
    /// Files from which the sandbox keeps them.
    kept: Vec<PathBuf>,
    /// The last event in the store when they were recorded.
    recorded: Option<u64>,
}

impl WorkPlaces {
    pub(super) fn new(request: &Request<'_>, workspace: &Path) -> Self {
        let (places, kept) = find_places(request, workspace);
        let trust = TrustStore::new(&request.states(), request.disk.clone());
        Self { trust, places, kept, recorded: None }
    }

    /// Records that agents work there, unless that is the last event: what was accepted before counts only for what was
    /// there before.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn record(&mut self) -> Result<(), StateError> {
        // A count that is lower was changed by an agent: what that makes unknown stays so.
        let last = self.trust.last_event()?;
        if self.recorded.is_none_or(|recorded| recorded < last) {
            self.trust.record_work(&self.places, &self.kept)?;
            self.recorded = Some(self.trust.last_event()?);
        }
        Ok(())
    }
}

/// Returns the folders in which agents of a configuration can write, with links resolved: the workspace, that which a worktree
/// is a copy of, and what a sandbox lets them write.
#[must_use]
pub fn find_work_folders(loaded: &LoadedConfig) -> Vec<PathBuf> {
    let config = &loaded.config;
    let is_confined = config.sandbox.mode != SandboxMode::Off;
    let listed = config.sandbox.write.iter().filter(|_| is_confined);
    let workspaces = [config.run.workspace.as_path(), loaded.configured_workspace()];
    let folders = workspaces.into_iter().chain(listed.map(PathBuf::as_path));
    folders.map(real_path).collect()
}

/// Returns where agents can write, and the files there from which the sandbox keeps them.
fn find_places(request: &Request<'_>, workspace: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let loaded = &request.loaded;
    let (sandbox, own) = (&loaded.config.sandbox, loaded.configuration());
    let mut places = find_work_folders(loaded);
    places.push(workspace.to_owned());
    let own_settings = loaded.user_file().map(real_path);
    let mut kept = Vec::new();
    match (sandbox.mode, sandbox.workspace) {
        // It has the user's rights.
        (SandboxMode::Off, _) => {
            let user_file = loaded.user_file().map(Path::to_owned);
            let as_typed = [Some(normalize_lexically(&request.config_file)), user_file];
            places.extend(as_typed.into_iter().flatten().chain(own).chain(own_settings));
            let plugins = loaded.config.plugins.values();
            places.extend(
                plugins
                    .flat_map(|plugin| plugin.own_files(loaded.dir()))
                    .map(|path| real_path(&path)),
            );
        }
        (SandboxMode::Landlock, SandboxWorkspace::Locked) => kept.extend(own),
        (SandboxMode::Landlock, SandboxWorkspace::Open) => {}
    }
    places.sort();
    places.dedup_by(|inner, outer| inner.starts_with(outer));
    (places, kept)
}
