//! Where agents can write once a run has begun: what is there is obeyed from then on only as a person has accepted it.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{SandboxMode, SandboxWorkspace};
use ralph_orchestrator_safe_fs::{normalize_lexically, real_path};
use ralph_orchestrator_store::{StateError, TrustStore};

use super::open::Request;

/// Records where agents can write from now on, before the first of them is started.
///
/// # Errors
/// It cannot be written.
pub(super) fn record_work(request: &Request<'_>, workspace: &Path) -> Result<(), StateError> {
    let loaded = &request.loaded;
    let (sandbox, own) = (&loaded.config.sandbox, loaded.configuration());
    let mut places: Vec<PathBuf> =
        vec![workspace.to_owned(), real_path(loaded.configured_workspace())];
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
    if sandbox.mode == SandboxMode::Landlock {
        places.extend(sandbox.write.iter().map(|path| real_path(path)));
    }
    places.sort();
    places.dedup_by(|inner, outer| inner.starts_with(outer));
    TrustStore::new(&request.states(), request.disk.clone()).record_work(&places, &kept)
}
