//! What the agent of a step does: a run, or with a backlog a run for each item.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_assembly::agent_names::is_reserved;
use ralph_orchestrator_assembly::backlogs;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_backlog::Backlog;
use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_config::{Limits, LoadedConfig};
use ralph_orchestrator_driver::{
    BacklogDriver, BacklogEnd, BacklogEvent, BacklogObserver, DriverSetup, Executor as _,
    LocalExecutor, RunOrder, Submission,
};
use ralph_orchestrator_engine::registry::FactoryMap;
use ralph_orchestrator_engine::{
    ProviderLimits, Redactor, RunEvent, RunObserver, RunPart, StopRequests,
};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::{Disk, Layout, list_runs};

use super::faults;
use super::faults::fault;
use super::opener::TrialOpener;

/// How the work of an agent ended.
pub(super) struct AgentEnd {
    /// Why its run stopped, or the work on its backlog; none if that cannot be continued.
    pub(super) reason: Option<StopReason>,
    /// What kept it from ending by itself.
    pub(super) fault: Option<Fault>,
    /// What people should know.
    pub(super) warnings: Vec<String>,
}

/// What happens within a trial is in its journal.
struct NoReporter;

impl RunObserver for NoReporter {
    fn on_event(&self, _run: &str, _event: &RunEvent) {}
}

/// Collects why the work on a backlog ended, and what people should know of it.
#[derive(Default)]
struct SeriesNotes(Mutex<(String, Vec<String>)>);

impl BacklogObserver for SeriesNotes {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            BacklogEvent::BacklogWarning { message } => notes.1.push(message.clone()),
            BacklogEvent::BacklogFinished { message, .. } => notes.0.clone_from(message),
            BacklogEvent::ItemStarted { .. }
            | BacklogEvent::ItemFinished { .. }
            | BacklogEvent::ItemMerged { .. }
            | BacklogEvent::ItemSentBack { .. } => {}
        }
    }
}

/// Performs the run of a step, or the series of runs of its backlog.
///
/// # Errors
/// It cannot begin or go on.
pub(super) async fn perform(
    opener: TrialOpener<'_>,
    layout: Layout,
    stop: StopRequests,
) -> Result<AgentEnd, CommandError> {
    let job = opener.job;
    let register = |formats: &mut FactoryMap<dyn Backlog>| {
        job.plugins.register_backlogs(formats);
        Ok(())
    };
    let found =
        backlogs::find(&opener.loaded, &job.vars, job.plugins.compiled_in(), register).await?;
    match found {
        Some(list) => perform_series(opener, list, layout, stop).await,
        None => perform_run(opener, stop).await,
    }
}

async fn perform_run(
    opener: TrialOpener<'_>,
    stop: StopRequests,
) -> Result<AgentEnd, CommandError> {
    let is_reserved = is_reserved(opener.agent);
    let limits = opener.loaded.config.limits.clone();
    let executor = LocalExecutor::new(opener, stop);
    let text = Arc::new(|_: &str| String::new());
    let order = RunOrder {
        item: None,
        lane: None,
        part: RunPart {
            run: None,
            item: None,
            is_lane: false,
            is_sent_back: false,
            is_first: true,
            trusted_git: None,
            text: text.clone(),
            description: text,
            env: BTreeMap::new(),
            products: None,
            providers: ProviderLimits::default(),
            guard: None,
        },
        item_claim: Arc::new(|| None),
        limits,
        once: is_reserved,
        restart: false,
    };
    let report = match executor.submit(order).await? {
        Submission::Opened { run } => {
            let observer: Arc<dyn RunObserver> = Arc::new(NoReporter);
            executor.watch(&run, observer).await?
        }
        Submission::Complete(report) => *report,
        Submission::Withheld(_) => return Err(CommandError::internal("the run was withheld")),
    };
    let reason = match report.reason {
        // It is to have one iteration, so a limit of as many is not what ended it.
        StopReason::MaxIterations if is_reserved => StopReason::Once,
        reason => reason,
    };
    let fault = faults::from_stop(reason, &report.message, Some(&report.state));
    Ok(AgentEnd { reason: Some(reason), fault, warnings: Vec::new() })
}

/// Works through the backlog of the work directory. All its runs together have the limits of the trial.
async fn perform_series(
    opener: TrialOpener<'_>,
    list: Arc<dyn Backlog>,
    layout: Layout,
    stop: StopRequests,
) -> Result<AgentEnd, CommandError> {
    let loaded = opener.loaded.clone();
    let (vars, requests) = (&opener.job.vars, stop.clone());
    let setup = driver_setup(&loaded, vars, (Arc::clone(&list), layout.clone()), requests);
    let notes = Arc::new(SeriesNotes::default());
    let observer: Arc<dyn BacklogObserver> = Arc::clone(&notes) as Arc<dyn BacklogObserver>;
    let executor = LocalExecutor::new(opener, stop);
    let driver = BacklogDriver::new(setup, executor, Arc::new(NoReporter), observer);
    let ended = Box::pin(driver.run()).await;
    let (message, warnings) =
        std::mem::take(&mut *notes.0.lock().unwrap_or_else(PoisonError::into_inner));
    match ended {
        // Only items are left that are blocked: the agent did what it could.
        Ok(BacklogEnd::Stopped { reason: StopReason::NeedsHuman, state: None, .. }) => {
            Ok(AgentEnd { reason: Some(StopReason::NeedsHuman), fault: None, warnings })
        }
        Ok(BacklogEnd::Stopped { reason, state, .. }) => {
            let fault = faults::from_stop(reason, &message, state.as_deref());
            Ok(AgentEnd { reason: Some(reason), fault, warnings })
        }
        Ok(BacklogEnd::Withheld(_)) => Err(CommandError::internal("the run was withheld")),
        // The file was read before the first run, so it is the agent who broke it.
        Err(error) if has_runs(&layout) && list.load().is_err() => {
            let fault = fault(Cause::Agent, "BacklogError", error.summary());
            Ok(AgentEnd { reason: None, fault: Some(fault), warnings })
        }
        Err(error) => Err(error.locate(&loaded)),
    }
}

fn driver_setup(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    (backlog, layout): (Arc<dyn Backlog>, Layout),
    requests: StopRequests,
) -> DriverSetup {
    let config = &loaded.config;
    let limits: Limits = config.limits.clone();
    DriverSetup {
        backlog,
        layout,
        disk: Disk::default(),
        limits,
        redactor: Redactor::new(&config.env, vars),
        requests,
        rules: config.backlog.as_ref().map(backlogs::guard_rules).unwrap_or_default(),
        item_limits: config.backlog.as_ref().map(backlogs::item_limits).unwrap_or_default(),
        has_initializer: config.initializer.is_some(),
        once: false,
        restart: false,
        hooks: None,
        workspace: config.run.workspace.clone(),
        dry: false,
        outer_run: None,
        describe_completion: None,
        // Nothing of a trial is committed.
        saver: None,
        publisher: None,
        lanes: None,
    }
}

fn has_runs(layout: &Layout) -> bool {
    list_runs(layout).is_ok_and(|runs| !runs.is_empty())
}
