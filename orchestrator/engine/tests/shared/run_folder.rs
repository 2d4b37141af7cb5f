//! Opens runs with nothing of the world but a folder and a disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_engine::{
    EngineError, NoVersionControl, OpenOutcome, Processes, Request, open,
};
use ralph_orchestrator_store::{Disk, OrphanReport};
use tempfile::TempDir;

/// A workspace, a state directory, a prompt and a configuration.
pub(crate) struct RunFolder(TempDir);

impl RunFolder {
    /// Creates them; `@STATE@` in the configuration is the state directory.
    pub(crate) fn new(config: &str) -> Self {
        // In memory, if there is such a place: syncing is not what is tested here.
        let memory = Path::new("/dev/shm");
        let this = Self(TempDir::new_in(memory).or_else(|_| TempDir::new()).unwrap());
        fs::create_dir(this.workspace()).unwrap();
        fs::write(this.root().join("PROMPT.md"), "# Task\n").unwrap();
        let config = config.replace("@STATE@", &this.state().display().to_string());
        fs::write(this.config_file(), config).unwrap();
        this
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root().join("w")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.root().join("ralph.toml")
    }
}

/// What a test decides of a start.
pub(crate) struct Start<'a> {
    /// The folder with `ralph.toml`.
    pub(crate) root: &'a Path,
    pub(crate) loaded: LoadedConfig,
    pub(crate) vars: BTreeMap<String, String>,
    pub(crate) disk: Disk,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) registry: &'a Registry,
}

pub(crate) async fn open_run(start: Start<'_>) -> Result<OpenOutcome, EngineError> {
    Box::pin(open(Request {
        loaded: start.loaded,
        config_file: start.root.join("ralph.toml"),
        vars: start.vars,
        disk: start.disk,
        state_home: start.root.to_owned(),
        is_listed: true,
        is_workspace_fresh: false,
        registry: start.registry,
        end_orphans: &|_| OrphanReport::default(),
        processes: start.processes,
        version_control: Arc::new(NoVersionControl),
        agent: None,
        once: false,
        attached: false,
        restart: false,
        renew: false,
        new_run: None,
        dry_run: false,
        part: None,
        protect: Vec::new(),
        say: &|_| (),
    }))
    .await
}
