//! `run` with a `[backlog]`: each item is a run.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ralph_orchestrator_assembly::backlog_view::{advice, read_counted, require};
use ralph_orchestrator_assembly::backlogs::{add_item_check, guard_rules, item_limits};
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::{BacklogCommits, BranchPublisher, GitLanes, RunPlace};
use ralph_orchestrator_assembly::orphans::end_orphans;
use ralph_orchestrator_assembly::own_locks::wait_for_own_locks;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::processes::SupervisedProcesses;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::{missing_agent_program, registry};
use ralph_orchestrator_backlog::{Backlog, BacklogItem};
use ralph_orchestrator_config::BaselineMode;
use ralph_orchestrator_driver::{
    BacklogDriver, BacklogEnd, BacklogEvent, BacklogObserver, BacklogSaver, DriverError,
    DriverSetup, LocalExecutor, RunOpener, RunOrder, WorkPublisher, read_ledger,
};
use ralph_orchestrator_engine::hooks::Hooks;
use ralph_orchestrator_engine::{
    EngineError, OpenOutcome, Redactor, Request, RunObserver, Session, open,
};
use ralph_orchestrator_machine::{State, StopReason};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_story::completion_report::describe_completion;
use ralph_orchestrator_story::next_step;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::signals::Signals;

use super::lanes::find_lanes;
use super::{RunArgs, Start, answer_open_question, observer, repositories};
use crate::dry_run::PlannedBacklog;
use crate::error::stop_exit_status;
use crate::notices::Notices;
use crate::render::{HumanBacklogReporter, JsonBacklogReporter, LaneReporter, QuietReporter};
use crate::trace::RunLog;
use crate::{detach, dry_run};

/// What opens the runs of a backlog.
struct BacklogRuns<'a> {
    place: &'a RunPlace,
    args: &'a RunArgs,
    list: Arc<dyn Backlog>,
    plugins: Plugins,
    policy: Option<SandboxPolicy>,
    hooks: Option<Arc<dyn Hooks>>,
    signals: &'a Signals,
    log: &'a RunLog,
    program: &'a str,
    /// No run was opened yet.
    is_first: Cell<bool>,
    /// Of a command that only looks: why the first run would start no agent, if it would not.
    found: Option<Arc<EndObserver>>,
}

/// Where a run works, and how its agents are confined there.
struct RunSite {
    context: Context,
    policy: Option<SandboxPolicy>,
}

/// Notes how the work on a backlog ends, and prints nothing.
#[derive(Default)]
struct EndObserver(Mutex<Option<(StopReason, String)>>);

impl EndObserver {
    fn note(&self, end: Option<(StopReason, String)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }
}

impl BacklogObserver for EndObserver {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        if let BacklogEvent::BacklogFinished { stop_reason, message, .. } = event {
            self.note(Some((*stop_reason, message.clone())));
        }
    }
}

#[async_trait(?Send)]
impl RunOpener for BacklogRuns<'_> {
    type Error = CommandError;

    async fn open(&self, order: RunOrder) -> Result<OpenOutcome, CommandError> {
        let site = self.find_site(&order)?;
        let opened = wait_for_own_locks(|| self.open_once(order.clone(), &site)).await;
        let Context { loaded, vars, .. } = &self.place.context;
        let agent = self.args.agent.as_deref();
        opened.map_err(|error| missing_agent_program::explain(error, loaded, vars, agent))
    }

    fn prepare(
        &self,
        session: &mut Session,
        item: Option<&BacklogItem>,
    ) -> Result<Option<u8>, CommandError> {
        if let Some(found) = &self.found {
            found.note(session.plan().into_stop());
            return Ok(Some(exit::OK));
        }
        if self.args.dry_run {
            let backlog = match item {
                Some(item) => {
                    let counts = self.list.load().map_err(DriverError::from)?.counts();
                    PlannedBacklog::Item { path: self.list.path(), counts, item }
                }
                None => PlannedBacklog::ToBeMade { path: self.list.path() },
            };
            let status = dry_run::show(
                session,
                self.place,
                Some(&backlog),
                self.policy.as_ref(),
                self.args.json,
            );
            return Ok(Some(status));
        }
        if !answer_open_question(session, self.args, self.program)? {
            return Ok(Some(exit::HUMAN));
        }
        if self.is_first.replace(false) {
            if self.args.detach && !detach::detach_from_terminal(session)? {
                return Ok(Some(exit::INTERRUPTED));
            }
            super::warn_of_sandbox(self.policy.as_ref(), session);
        }
        self.log.begin(&session.layout().log(session.run_id()), session.redactor());
        Ok(None)
    }
}

impl BacklogRuns<'_> {
    /// Returns where a run works: where the others do, or in its lane.
    fn find_site(&self, order: &RunOrder) -> Result<RunSite, CommandError> {
        let Some(lane) = &order.lane else {
            return Ok(RunSite {
                context: self.place.context.clone(),
                policy: self.policy.clone(),
            });
        };
        let context = GitLanes::enter(&self.place.context, lane);
        let policy = SandboxPolicy::from_context(&context)?;
        let policy = policy.map(|policy| policy.with_readable(self.place.repository()));
        Ok(RunSite { context, policy })
    }

    async fn open_once(
        &self,
        order: RunOrder,
        RunSite { context, policy }: &RunSite,
    ) -> Result<OpenOutcome, EngineError> {
        let Context { file, loaded, vars, .. } = context;
        let is_lane = order.lane.is_some();
        // One for all processes of this run, those of git too: what is left of it must not hold the next one up.
        let supervisor = registry::supervisor_of_one(self.signals.switch.clone());
        let mut registry = registry::build(&self.plugins, policy.as_ref(), supervisor.clone());
        registry::add_backlog_detector(&mut registry, Some(order.item_claim));
        if let Some(hooks) = &self.hooks {
            registry.set_hooks(Arc::clone(hooks));
        }
        let mut limited = loaded.clone();
        limited.config.limits = order.limits;
        if let Some(item) = &order.item {
            add_item_check(&mut limited, &item.id, item.verify.as_deref())?;
        }
        let baseline = &mut limited.config.completion.baseline;
        if order.part.is_sent_back && *baseline == BaselineMode::MustFail {
            *baseline = BaselineMode::Warn;
        }
        if order.part.products.is_none() {
            // Where the backlog has items, the initializer has done its work, or is not needed.
            limited.config.initializer = None;
        }
        // It is large, and awaited by others that are.
        let opened = Box::pin(open(Request {
            loaded: limited,
            config_file: file.clone(),
            vars: vars.clone(),
            disk: Disk::default(),
            state_home: context.state_home(),
            is_listed: true,
            is_workspace_fresh: false,
            registry: &registry,
            end_orphans: &end_orphans,
            processes: Arc::new(SupervisedProcesses),
            version_control: Arc::new(repositories(supervisor, context, policy.as_ref())),
            agent: self.args.agent.clone(),
            once: order.once,
            attached: false,
            restart: order.restart || (!is_lane && self.place.begins && self.is_first.get()),
            renew: order.restart && !self.args.dry_run,
            new_run: self.place.new_run().filter(|_| !is_lane),
            dry_run: self.args.dry_run,
            part: Some(order.part),
            protect: Vec::new(),
            say: &output::info,
        }));
        opened.await
    }
}

/// Returns what reports the runs, and what happens between them; `is_in_lanes`: several runs go on at once.
fn reporters(
    args: &RunArgs,
    quiet: bool,
    signals: &Signals,
    is_in_lanes: bool,
) -> (Arc<dyn RunObserver>, Arc<dyn BacklogObserver>) {
    if args.json {
        let interrupted = Arc::clone(&signals.status);
        let of_backlog = JsonBacklogReporter { interrupted };
        return (observer(args, quiet, signals, None), Arc::new(of_backlog));
    }
    if is_in_lanes && !quiet {
        let reporter = LaneReporter::new(args.verbose > 0, Arc::new(HumanBacklogReporter));
        let reporter = Arc::new(reporter);
        return (Arc::clone(&reporter) as _, reporter);
    }
    (observer(args, quiet, signals, None), Arc::new(HumanBacklogReporter))
}

/// Returns what the driver works on.
fn driver_setup(
    place: &RunPlace,
    args: &RunArgs,
    list: &Arc<dyn Backlog>,
    signals: &Signals,
    (plugins, policy): (&Plugins, Option<&SandboxPolicy>),
) -> Result<DriverSetup, CommandError> {
    let context = &place.context;
    let layout = context.layout_of_run(args.restart)?;
    let config = &context.loaded.config;
    let saver = BacklogCommits::find(
        context,
        list,
        &layout,
        (signals.switch.clone(), signals.watch_requests()),
        policy,
    );
    let ends = (policy, signals.watch_requests());
    let publisher = BranchPublisher::find(context, &**list, &layout, ends);
    // What only looks makes no worktree, and so has none for lanes.
    let lanes = match args.dry_run {
        true => None,
        false => find_lanes(place, &layout, plugins, signals)?,
    };
    let saver = match &lanes {
        Some(lanes) => saver.map(|saver| saver.beside_lanes(&lanes.places.trunk().worktree)),
        None => saver,
    };
    Ok(DriverSetup {
        backlog: Arc::clone(list),
        layout,
        disk: Disk::default(),
        limits: config.limits.clone(),
        redactor: Redactor::new(&config.env, &context.vars),
        requests: signals.watch_requests(),
        rules: config.backlog.as_ref().map(guard_rules).unwrap_or_default(),
        item_limits: config.backlog.as_ref().map(item_limits).unwrap_or_default(),
        has_initializer: config.initializer.is_some(),
        once: args.once,
        restart: args.restart,
        dry: args.dry_run,
        hooks: None,
        workspace: config.run.workspace.clone(),
        outer_run: context.vars.get("RALPH_RUN_ID").cloned(),
        describe_completion: Some(Arc::new(describe_completion)),
        lanes,
        saver: saver.map(|saver| Box::new(saver) as Box<dyn BacklogSaver>),
        publisher: publisher.map(|publisher| Box::new(publisher) as Box<dyn WorkPublisher>),
    })
}

/// Returns why a start would begin no iteration, if it would not. Only looks.
pub(super) async fn find_stop(
    place: &RunPlace,
    args: &RunArgs,
    plugins: Plugins,
    policy: Option<SandboxPolicy>,
    signals: &Signals,
) -> Result<Option<(StopReason, String)>, CommandError> {
    let list = require(&place.context).await?;
    let setup = driver_setup(place, args, &list, signals, (&plugins, policy.as_ref()))?;
    let found = Arc::new(EndObserver::default());
    let runs = BacklogRuns {
        place,
        args,
        list,
        plugins,
        policy,
        hooks: None,
        signals,
        log: &RunLog::default(),
        program: "",
        is_first: Cell::new(true),
        found: Some(Arc::clone(&found)),
    };
    let executor = LocalExecutor::new(runs, signals.watch_requests());
    let observer: Arc<dyn BacklogObserver> = Arc::clone(&found) as _;
    let driver = BacklogDriver::new(setup, executor, Arc::new(QuietReporter), observer);
    let ended = Box::pin(driver.run()).await;
    ended.map_err(|error| error.locate(&place.context.loaded))?;
    let end = found.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(end)
}

/// Works through the backlog. Returns the exit status.
pub(super) async fn run(start: Start<'_>) -> Result<u8, CommandError> {
    let Start { place, args, plugins, policy, signals, log, quiet, program, dirt, .. } = start;
    let context = &place.context;
    let list = require(context).await?;
    let mut setup = driver_setup(&place, &args, &list, &signals, (&plugins, policy.as_ref()))?;
    setup.hooks = super::find_hooks(&place, &args, &signals);
    super::warn_of_dirt(dirt, &setup.redactor).await;
    let mut notices = Notices::start(context, &setup.layout, &signals.switch);
    let (run_observer, observer) = reporters(&args, quiet, &signals, setup.lanes.is_some());
    let run_observer = notices.observe(run_observer);
    let observer = notices.observe_backlog(context, &list, &signals.switch, observer).await;
    let runs = BacklogRuns {
        place: &place,
        args: &args,
        list: Arc::clone(&list),
        plugins,
        policy: policy.clone(),
        hooks: setup.hooks.clone(),
        signals: &signals,
        log,
        program,
        is_first: Cell::new(true),
        found: None,
    };
    let executor = LocalExecutor::new(runs, signals.stop_requests());
    let driver = BacklogDriver::new(setup, executor, run_observer, observer);
    let ended = notices.serve(Box::pin(driver.run())).await;
    match ended.map_err(|error| error.locate(&context.loaded))? {
        BacklogEnd::Withheld(status) => Ok(status),
        BacklogEnd::Stopped { reason, ended_well, state } => {
            let next = advise(state.as_deref(), &*list, context, program);
            let layout = context.layout()?;
            let is_proposed = super::report_proposal(context, &layout, policy.as_ref()).await;
            if !quiet && !args.json {
                super::report_worktree(context).await?;
            }
            if let Some(next) = next.filter(|_| !args.json) {
                output::info(&format!("next: {next}"));
            }
            let status = signals.status.load(Ordering::Relaxed);
            Ok(super::proposed_status(stop_exit_status(reason, ended_well, status), is_proposed))
        }
    }
}

/// Returns what to do after the backlog has stopped; the run that stopped it, if one did, was in this state.
fn advise(
    state: Option<&State>,
    list: &dyn Backlog,
    context: &Context,
    program: &str,
) -> Option<String> {
    if let Some(of_run) = state.and_then(|state| next_step::after(state, program)) {
        return Some(of_run);
    }
    let ledger = read_ledger(&context.layout().ok()?).ok().flatten().unwrap_or_default();
    advice(&ledger, read_counted(list, context).ok().as_ref(), program)
}
