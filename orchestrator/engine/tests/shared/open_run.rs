//! Opens runs with nothing of the world but a folder and a disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_engine::{
    EngineError, NoVersionControl, OpenOutcome, Processes, Request, open,
};
use ralph_orchestrator_store::{Disk, OrphanReport};

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
