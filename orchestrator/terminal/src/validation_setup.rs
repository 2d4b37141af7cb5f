//! What decides about completion, outside of any run.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ralph_orchestrator_assembly::backlog_view;
use ralph_orchestrator_assembly::backlogs::add_item_check;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_engine::registry::{LaunchContext, Registry};
use ralph_orchestrator_engine::{
    CompletionPolicy, ConfiguredAgent, HeldFiles, StopRequest, StopRequests, build_context,
};
use ralph_orchestrator_supervisor::KillSwitch;
use tokio::sync::watch;

use crate::activity::Activity;
use crate::output;
use crate::signals::{self, Signals};

/// What the processes of checks outside of a run end with, and hold while they live.
#[derive(Default)]
pub struct CheckProcesses {
    /// Pulled at the first signal, which ends the program, unless [stop requests](Self::take_stop_requests) are waited for.
    pub switch: KillSwitch,
    signals: Option<Signals>,
    /// The lock of the workspace: no run begins beside them, also if this program was killed.
    pub workspace: Option<Arc<File>>,
    /// Restores, when the checks are over, what they must not change.
    _held: Option<RestoredFiles>,
}

/// Files that are restored when this is dropped.
struct RestoredFiles(HeldFiles);

impl Drop for RestoredFiles {
    fn drop(&mut self) {
        self.0.restore().iter().for_each(|text| output::info(&format!("warning: {text}")));
    }
}

impl RestoredFiles {
    fn hold(context: &Context) -> Self {
        let config = &context.loaded.config;
        let backlog = config.backlog.as_ref().filter(|found| registry::is_one_file(&found.kind));
        Self(HeldFiles::hold(config, backlog.and_then(|found| found.path.as_deref())))
    }
}

impl CheckProcesses {
    /// Receives signals from now on, and locks the workspace.
    ///
    /// # Errors
    /// A run works in it, or other checks.
    pub fn begin(context: &Context) -> Result<Self, CommandError> {
        let workspace = Some(context.lock_workspace()?);
        let _held = Some(RestoredFiles::hold(context));
        let signals = signals::listen()?;
        Ok(Self { switch: signals.switch.clone(), signals: Some(signals), workspace, _held })
    }

    /// The same, but without the lock where it cannot be taken.
    pub fn begin_unlocked(context: &Context) -> Result<Self, CommandError> {
        let workspace = context.lock_workspace().ok();
        // Where a run works it is the agent who may change them, and the run that restores them.
        let _held = workspace.as_ref().map(|_| RestoredFiles::hold(context));
        let signals = signals::listen()?;
        Ok(Self { switch: signals.switch.clone(), signals: Some(signals), workspace, _held })
    }

    /// Returns the requests to stop that come from now on, which no longer end the program at once.
    pub fn take_stop_requests(&self) -> StopRequests {
        Activity::Validators.begin();
        match &self.signals {
            Some(signals) => signals.stop_requests(),
            None => watch::channel(StopRequest::default()).1,
        }
    }

    /// Returns the exit status of the signal that requested the stop.
    pub fn stop_status(&self) -> u8 {
        let status = self.signals.as_ref().map(|signals| signals.status.load(Ordering::Relaxed));
        status.unwrap_or(exit::INTERRUPTED)
    }

    /// Returns a registry of everything, whose processes they are.
    pub fn registry(&self, plugins: &Plugins, sandbox: Option<&SandboxPolicy>) -> Registry {
        registry::for_run(plugins, sandbox, self.switch.clone())
    }
}

/// The validators of a configuration as a run would have them, with its first agent and the environment of both.
pub struct ValidationSetup {
    /// What builds the parts.
    pub registry: Registry,
    /// What they are built with.
    pub build: BuildContext,
    /// The checks and detectors.
    pub policy: CompletionPolicy,
    /// The agent.
    pub agent: ConfiguredAgent,
    /// What checks have in their environment.
    pub env: BTreeMap<String, String>,
}

impl ValidationSetup {
    /// Builds them from their tables, as the run of the backlog's next item would have them.
    ///
    /// # Errors
    /// A table is wrong.
    pub async fn build(
        context: &Context,
        plugins: &Plugins,
        sandbox: Option<&SandboxPolicy>,
        processes: &CheckProcesses,
    ) -> Result<Self, CommandError> {
        let next = backlog_view::find_next(context).await;
        let item = next.map(|item| (item.id, item.verify));
        Self::build_for(context, plugins, sandbox, (processes, item)).await
    }

    /// The same as the run of an item with this id and this check of its own would have them.
    ///
    /// # Errors
    /// A table is wrong.
    pub async fn build_for(
        context: &Context,
        plugins: &Plugins,
        sandbox: Option<&SandboxPolicy>,
        (processes, item): (&CheckProcesses, Option<(String, Option<String>)>),
    ) -> Result<Self, CommandError> {
        let registry = processes.registry(plugins, sandbox);
        let build = build_context(&context.loaded, &context.vars);
        let mut loaded = context.loaded.clone();
        if let Some((id, verify)) = &item {
            add_item_check(&mut loaded, id, verify.as_deref())?;
        }
        let policy = CompletionPolicy::build(&loaded, &registry, &build).await?;
        registry.set_launch_context(LaunchContext {
            guard: processes.workspace.clone(),
            protects: policy.protects(),
            ..LaunchContext::default()
        });
        let agent = ConfiguredAgent::build(&context.loaded, &registry, &build, None).await?;
        let mut env = agent.environment(&context.loaded, &context.vars);
        env.extend(item.map(|(id, _)| ("RALPH_ITEM".to_owned(), id)));
        Ok(Self { registry, build, policy, agent, env })
    }
}
