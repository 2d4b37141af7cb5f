//! Opens the run of a trial.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::missing_agent_program::explain;
use ralph_orchestrator_assembly::orphans::end_orphans;
use ralph_orchestrator_assembly::own_locks::wait_for_own_locks;
use ralph_orchestrator_assembly::processes::SupervisedProcesses;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::trust::JudgedFiles;
use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_driver::{RunOpener, RunOrder};
use ralph_orchestrator_engine::{EngineError, OpenOutcome, Request, Session, VersionControl, open};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_supervisor::Mount;

use super::job_setup::JobSetup;
use super::snapshots::Snapshots;
use super::trial_config::agent_key;
use super::trial_environment::TrialEnvironment;
use crate::isolation::IsolationRow;

/// Opens the run of a trial or of a step of it, or with a backlog that of each item.
pub(super) struct TrialOpener<'a> {
    pub(super) job: &'a JobSetup,
    pub(super) loaded: LoadedConfig,
    /// The run is the first of the trial to work in its workspace, unless the backlog has had one.
    pub(super) is_first: bool,
    /// The column's agent.
    pub(super) agent: &'a str,
    /// What the agent, its validators and everything else of a run see.
    pub(super) environment: TrialEnvironment,
    /// What they see beside it.
    pub(super) mounts: &'a [Mount],
    pub(super) snapshots: PathBuf,
}

impl TrialOpener<'_> {
    /// Returns how the agent is confined, if its environment is this machine.
    fn policy(&self) -> Result<Option<SandboxPolicy>, CommandError> {
        if IsolationRow::of(self.job.loaded.config.bench.isolation).has_root() {
            return Ok(None);
        }
        SandboxPolicy::from_context(&Context {
            file: self.job.file.clone(),
            loaded: self.loaded.clone(),
            vars: self.job.vars.clone(),
            compiled_in: Arc::default(),
            judged: JudgedFiles::default(),
        })
    }
}

#[async_trait(?Send)]
impl RunOpener for TrialOpener<'_> {
    type Error = CommandError;

    async fn open(&self, order: RunOrder) -> Result<OpenOutcome, CommandError> {
        let policy = self.policy()?;
        let opened = wait_for_own_locks(|| self.open_once(order.clone(), policy.as_ref())).await;
        let agent = agent_key(self.agent);
        opened.map_err(|error| explain(error, &self.loaded, &self.job.vars, agent.as_deref()))
    }

    fn prepare(
        &self,
        _session: &mut Session,
        _item: Option<&BacklogItem>,
    ) -> Result<Option<u8>, CommandError> {
        Ok(None)
    }
}

impl TrialOpener<'_> {
    /// Whether nothing has run in the workspace, which this process made.
    fn is_fresh(&self) -> bool {
        let state = self.loaded.config.state.dir.as_ref();
        self.is_first && state.is_some_and(|state| !state.exists())
    }

    async fn open_once(
        &self,
        order: RunOrder,
        policy: Option<&SandboxPolicy>,
    ) -> Result<OpenOutcome, EngineError> {
        // One for each run: what is left of it must not hold the next one up.
        let supervisor = self.environment.supervisor_of_run(self.mounts);
        let mut registry = registry::build(&self.job.plugins, policy, supervisor);
        registry::add_backlog_detector(&mut registry, Some(order.item_claim));
        let mut loaded = self.loaded.clone();
        loaded.config.limits = order.limits;
        if loaded.config.backlog.is_some() && order.part.products.is_none() {
            // Where the backlog has items, the initializer has done its work, or is not needed.
            loaded.config.initializer = None;
        }
        let vars = self.job.vars.clone();
        let snapshots: Arc<dyn VersionControl> =
            Arc::new(Snapshots { folder: self.snapshots.clone() });
        let opened = Box::pin(open(Request {
            loaded,
            config_file: self.job.file.clone(),
            vars,
            disk: Disk::default(),
            state_home: self.job.state_home.clone(),
            is_listed: false,
            is_workspace_fresh: self.is_fresh(),
            registry: &registry,
            end_orphans: &end_orphans,
            processes: Arc::new(SupervisedProcesses),
            version_control: snapshots,
            agent: agent_key(self.agent),
            once: order.once,
            attached: false,
            restart: order.restart,
            renew: false,
            new_run: None,
            dry_run: false,
            part: Some(order.part),
            protect: Vec::new(),
            // What concerns a single trial is in its folder.
            say: &|_| {},
        }));
        opened.await
    }
}
