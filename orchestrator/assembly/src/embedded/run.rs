//! One run: its thread, and what its owner has of it.

use std::fmt;
use std::sync::Arc;

use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_engine::{
    Finished, OpenOutcome, Request, RunEvent, Session, StopRequest, StopRequests, open,
};
use ralph_orchestrator_machine::{IterationOutcome, State, StopReason};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_supervisor::KillSwitch;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use super::events::{EventReceiver, EventSender, RunUpdate, queue};
use super::options::RunOptions;
use super::{ControlHandle, OrchestratorError};
use crate::context::Context;
use crate::error::CommandError;
use crate::git::{Confinement, GitRepositories};
use crate::missing_agent_program::explain;
use crate::orphans::end_orphans;
use crate::own_locks::wait_for_own_locks;
use crate::placeholder::refuse_placeholder;
use crate::plugins::Plugins;
use crate::processes::SupervisedProcesses;
use crate::sandbox::SandboxPolicy;
use crate::{git, registry};

/// A run that was started. Dropping it kills its processes; the run can be resumed.
pub struct Run {
    id: String,
    events: EventReceiver,
    end: oneshot::Receiver<Result<RunResult, OrchestratorError>>,
    stop: StopOnDrop,
    controls: ControlHandle,
}

/// Stops a run from anywhere. Cheap to clone; does not keep the run alive.
#[derive(Clone)]
pub struct StopHandle {
    requests: Arc<watch::Sender<StopRequest>>,
    switch: KillSwitch,
}

/// How a run ended, or ended for now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunResult {
    /// The id of the run.
    pub run: String,
    /// Why it ended.
    pub reason: StopReason,
    /// The same for people.
    pub message: String,
    /// Why the last iteration failed, if it did, such as the panic of an agent that is compiled in.
    pub failure: Option<String>,
    /// Whether validators have accepted its completion.
    pub validated: bool,
    /// Its iterations, those of earlier starts included.
    pub iterations: u64,
    /// What it has cost, as far as that is known.
    pub cost_usd: Usd,
    /// It was complete before, and no agent was started.
    pub was_complete: bool,
}

/// A run that nobody can see any more is of no use to anybody.
struct StopOnDrop(StopHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Run").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StopHandle").finish_non_exhaustive()
    }
}

impl StopHandle {
    /// Requests an orderly stop, as one Ctrl-C does: the agent is ended and what it used is recorded.
    pub fn stop(&self) {
        self.requests.send_modify(|request| request.times = request.times.max(1));
    }

    /// Kills all processes of the run at once, as a second Ctrl-C does.
    pub fn kill(&self) {
        self.requests.send_modify(|request| request.times = request.times.max(2));
        self.switch.pull();
    }
}

impl Run {
    /// Returns the run's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns what stops the run.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.0.clone()
    }

    /// Returns what guides the run.
    #[must_use]
    pub fn control_handle(&self) -> ControlHandle {
        self.controls.clone()
    }

    /// Waits for the next update; `None` after the last. Nothing is lost when the future is dropped.
    pub async fn next_update(&mut self) -> Option<RunUpdate> {
        self.events.next().await
    }

    /// Waits for the end; updates that were not read are discarded.
    ///
    /// # Errors
    /// The state, the workspace or the prompt cannot be read or written. The run can be resumed.
    pub async fn finish(self) -> Result<RunResult, OrchestratorError> {
        let Self { events, end, stop, .. } = self;
        drop(events);
        let result = end.await.unwrap_or_else(|_| Err(died()));
        drop(stop);
        result
    }
}

fn died() -> OrchestratorError {
    OrchestratorError::Run("the thread of the run ended unexpectedly".to_owned())
}

/// Starts a run on a thread of its own and waits until it begins, or is complete already.
pub(super) async fn start(context: Context, options: RunOptions) -> Result<Run, OrchestratorError> {
    let (requests, receiver) = watch::channel(StopRequest::default());
    let switch = KillSwitch::default();
    let stop = StopOnDrop(StopHandle { requests: Arc::new(requests), switch: switch.clone() });
    let controls = ControlHandle::new(context.layout()?);
    let (sender, events) = queue();
    let (opened_sender, opened) = oneshot::channel();
    let (end_sender, end) = oneshot::channel();
    let task = RunTask { context, options, switch, requests: receiver };
    let work = move || task.perform(sender, opened_sender, end_sender);
    let thread = std::thread::Builder::new().name("run".to_owned());
    thread.spawn(work).map_err(CommandError::from)?;
    let id = opened.await.unwrap_or_else(|_| Err(died()))?;
    Ok(Run { id, events, end, stop, controls })
}

/// What the thread of a run has.
struct RunTask {
    context: Context,
    options: RunOptions,
    switch: KillSwitch,
    requests: StopRequests,
}

impl RunTask {
    fn perform(
        self,
        events: EventSender,
        opened: oneshot::Sender<Result<String, OrchestratorError>>,
        end: oneshot::Sender<Result<RunResult, OrchestratorError>>,
    ) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(opened.send(Err(CommandError::from(error).into()))),
        };
        runtime.block_on(async {
            let requests = self.requests.clone();
            match Box::pin(self.open(&events)).await {
                Err(error) => drop(opened.send(Err(error.into()))),
                Ok(OpenOutcome::Complete { found, .. }) => {
                    drop(opened.send(Ok(found.run.clone())));
                    drop(events);
                    drop(end.send(Ok(found_complete(&found.run, &found.state))));
                }
                Ok(OpenOutcome::Ready(session)) => {
                    drop(opened.send(Ok(session.run_id().to_owned())));
                    let result = drive(*session, events, requests).await;
                    drop(end.send(result));
                }
            }
        });
    }

    async fn open(&self, events: &EventSender) -> Result<OpenOutcome, CommandError> {
        let context = &self.context;
        refuse_placeholder(&context.loaded.config)?;
        let policy = SandboxPolicy::from_context(context)?;
        let plugins = Plugins::from_context(context)?;
        git::check_commits(context).await?;
        let opened = wait_for_own_locks(|| self.open_once(&plugins, policy.as_ref(), events)).await;
        let agent = self.options.agent.as_deref();
        opened.map_err(|error| explain(error, &context.loaded, &context.vars, agent))
    }

    async fn open_once(
        &self,
        plugins: &Plugins,
        policy: Option<&SandboxPolicy>,
        events: &EventSender,
    ) -> Result<OpenOutcome, ralph_orchestrator_engine::EngineError> {
        let Context { file, loaded, vars, .. } = &self.context;
        let RunOptions { once, restart, agent } = &self.options;
        // Its shims hold the locks of this run, and end with it.
        let supervisor = registry::supervisor_of_one(self.switch.clone());
        let registry = registry::build(plugins, policy, supervisor.clone());
        let runtime = Handle::current();
        let confinement = Confinement::new(policy, &self.context);
        let repositories = GitRepositories {
            supervisor,
            vars: vars.clone(),
            places: self.context.agent_places(),
            runtime,
            confinement,
        };
        let say = |message: &str| {
            events.send(RunEvent::Warning { iteration: 0, message: message.to_owned() });
        };
        // It is large, and awaited by others that are.
        Box::pin(open(Request {
            loaded: loaded.clone(),
            config_file: file.clone(),
            vars: vars.clone(),
            disk: Disk::default(),
            state_home: self.context.state_home(),
            is_listed: true,
            is_workspace_fresh: false,
            registry: &registry,
            end_orphans: &end_orphans,
            processes: Arc::new(SupervisedProcesses),
            version_control: Arc::new(repositories),
            agent: agent.clone(),
            once: *once,
            attached: false,
            restart: *restart,
            renew: *restart,
            new_run: None,
            dry_run: false,
            part: None,
            protect: Vec::new(),
            say: &say,
        }))
        .await
    }
}

async fn drive(
    session: Session,
    events: EventSender,
    requests: StopRequests,
) -> Result<RunResult, OrchestratorError> {
    let finished = Box::pin(session.drive(Arc::new(events), requests)).await;
    let Finished { run, reason, message, state } = finished.map_err(CommandError::from)?;
    Ok(result(run, reason, message, &state))
}

fn result(run: String, reason: StopReason, message: String, state: &State) -> RunResult {
    RunResult {
        run,
        reason,
        message,
        failure: failure(state),
        validated: state.completion().is_some_and(|completion| completion.validated),
        iterations: state.iterations,
        cost_usd: state.cost(),
        was_complete: false,
    }
}

/// Returns why the last iteration failed, if it did.
fn failure(state: &State) -> Option<String> {
    match state.last_outcome.as_ref()? {
        IterationOutcome::Failed { message, .. } => Some(message.clone()),
        _ => None,
    }
}

fn found_complete(run: &str, state: &State) -> RunResult {
    let message = "already complete".to_owned();
    let result = result(run.to_owned(), StopReason::Completed, message, state);
    RunResult { was_complete: true, ..result }
}
