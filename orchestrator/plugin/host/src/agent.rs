//! Agents of plugins.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, Budget, BuildContext, BuildError, CancelReason, Description, ErrorClass,
    Event, EventSink, FactoryError, Iteration, Launch, Leftovers, Report,
};
use ralph_orchestrator_plugin_protocol::{
    Answer, ItemKind, LogLevel, LogLine, Method, Provided, feature,
};
use ralph_orchestrator_supervisor::{Exit, Supervisor, TurnBudget};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::call::CallHandle;
use crate::call_event::{CallEvent, CallOutcome, failure_message};
use crate::log;
use crate::plugin::{Instance, InstanceRequest, Plugin, disconnect};
use crate::process::{Connection, Shutdown};
use crate::session::OpenError;
use crate::session_state::SessionClosed;

/// The time that an agent has to end after it was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// The time that an agent has to answer `check`.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// An agent of a plugin.
struct PluginAgent {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: InstanceRequest,
    description: Description,
    /// What it said, when it was checked, that it would start.
    launch: Mutex<Option<Launch>>,
}

impl Plugin {
    /// Builds the agent `member`, or the only one. `supervisor` starts its processes.
    ///
    /// # Errors
    /// The plugin does not work, provides no such agent, or rejects the table.
    pub async fn agent(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, FactoryError> {
        let request = InstanceRequest::new(ItemKind::Agent, member, table, context);
        let Provided::Agent(mut description) = self.describe(supervisor, &request).await? else {
            return Err(self.unavailable("it does not provide an agent"));
        };
        description.name = self.qualified_name(member);
        Ok(Box::new(PluginAgent {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            description,
            launch: Mutex::default(),
        }))
    }
}

#[async_trait]
impl Agent for PluginAgent {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let connection = self.plugin.connect(&self.supervisor, env).await;
        let Connection { process, transport, inbound } =
            connection.map_err(|why| self.unavailable(&why))?;
        let checked = async {
            let instance = self.plugin.open_instance((transport, inbound), &self.request).await;
            let instance = instance.map_err(|error| self.unavailable(&error.to_string()))?;
            let method = Method::Check { env: env.clone() };
            let call = instance.session.call(instance.id, method).await;
            let mut call = call.map_err(|closed| self.unavailable(&closed.0))?;
            match tokio::time::timeout(self.plugin.patience(CHECK_TIMEOUT), call.outcome()).await {
                Ok(CallOutcome::Done(Answer::Found(found))) => {
                    drop(call);
                    self.ask_launch(&instance, env).await;
                    Ok((found, instance))
                }
                Ok(CallOutcome::Failed(error)) => Err(error),
                Ok(outcome) => Err(self.unavailable(&failure_message(outcome))),
                Err(_) => {
                    let why = format!("no reply to `check` within {} s", CHECK_TIMEOUT.as_secs());
                    Err(self.unavailable(&why))
                }
            }
        };
        let result = checked.await;
        let session = result.as_ref().ok().map(|(_, instance)| &*instance.session);
        disconnect(process, session, Shutdown::Graceful).await;
        result.map(|(found, _)| found)
    }

    fn launch(&self, _task: &Iteration) -> Option<Launch> {
        self.launch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let mut run = IterationRun {
            agent: self,
            events,
            cancelled: events.cancelled(),
            cancel_sent: None,
            turn: TurnBudget::default(),
        };
        if run.is_already_cancelled().await {
            let message = "the agent was not started because the iteration was cancelled";
            return Err(AgentError::new(ErrorClass::Cancelled, message));
        }
        let mut task = task;
        task.env.entry("RALPH_RUN_ID".to_owned()).or_insert_with(|| task.run.clone());
        task.env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| task.number.to_string());
        let connection = self.plugin.connect(&self.supervisor, &task.env).await;
        let Connection { process, transport, inbound } =
            connection.map_err(|why| self.unavailable(&why))?;
        let opening = self.plugin.open_instance((transport, inbound), &self.request);
        let instance = tokio::select! {
            biased;
            reason = &mut run.cancelled => Err(cancelled(reason)),
            instance = opening => instance.map_err(|error| self.open_failed(error)),
        };
        let (result, session, shutdown) = match instance {
            Ok(instance) => {
                let session = Arc::clone(&instance.session);
                let (result, shutdown) = run.run_to_end(&instance, task).await;
                (result, Some(session), shutdown)
            }
            Err(error) => (Err(error), None, Shutdown::Kill),
        };
        let exit = disconnect(process, session.as_deref(), shutdown).await;
        if let Some(session) = &session {
            for event in session.late_output().await {
                match event {
                    CallEvent::Stderr(text) => events.emit(Event::Stderr { text }).await,
                    CallEvent::Log(line) => events.emit(self.logged(&line)).await,
                    _ => {}
                }
            }
            // What it sent after its answer changes nothing any more.
            let late = session.closed().filter(SessionClosed::is_violation);
            if let (Some(closed), Ok(_)) = (late, &result) {
                let message = self.plugin.describe_error(&closed.0);
                events.emit(Event::Warning { message }).await;
            }
        }
        add_exit(result, &exit, self.plugin.is_attached())
    }
}

impl PluginAgent {
    /// Asks the agent what it would start, while its process is there to be asked: that is the same for each task, but for
    /// what placeholders stand for.
    async fn ask_launch(&self, instance: &Instance, env: &BTreeMap<String, String>) {
        if !instance.session.has_feature(feature::LAUNCH) {
            return;
        }
        let task = Iteration {
            run: String::new(),
            number: 1,
            prompt: Launch::PROMPT.into(),
            workspace: self.request.context.workspace.clone(),
            env: env.clone(),
            budget: Budget::default(),
            scratch: Launch::SCRATCH.into(),
        };
        let method = Method::Launch { task: task.into() };
        let answered = instance.call_within(method, CHECK_TIMEOUT).await;
        if let Ok(Answer::Launch(launch)) = answered {
            *self.launch.lock().unwrap_or_else(PoisonError::into_inner) = launch;
        }
    }

    fn unavailable(&self, why: &str) -> AgentError {
        AgentError::new(ErrorClass::Unavailable, self.plugin.describe_error(why))
    }

    fn crashed(&self, why: &str) -> AgentError {
        AgentError::new(ErrorClass::Crashed, self.plugin.describe_error(why))
    }

    /// Returns the event of a log message.
    fn logged(&self, line: &LogLine) -> Event {
        let text = log::text(line);
        if line.level <= LogLevel::Warn {
            Event::Warning { message: self.plugin.describe_error(&text) }
        } else {
            Event::Stderr { text }
        }
    }

    fn open_failed(&self, error: OpenError) -> AgentError {
        match error {
            OpenError::Refused(BuildError { message, .. }) | OpenError::NotProvided(message) => {
                let why = format!("it rejects its configuration now: {message}");
                AgentError::new(ErrorClass::InvalidRequest, self.plugin.describe_error(&why))
            }
            OpenError::SessionClosed(closed) => self.crashed(&closed.0),
        }
    }
}

/// One iteration in progress.
struct IterationRun<'a> {
    agent: &'a PluginAgent,
    events: &'a dyn EventSink,
    cancelled: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
    /// Why the call was cancelled, and when its grace period ends.
    cancel_sent: Option<(CancelReason, Instant)>,
    turn: TurnBudget,
}

impl IterationRun<'_> {
    async fn is_already_cancelled(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = &mut self.cancelled => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Runs the call to its end. Returns the result, and how to end the process.
    async fn run_to_end(
        mut self,
        instance: &Instance,
        task: Iteration,
    ) -> (Result<Report, AgentError>, Shutdown) {
        let call = instance.session.call(instance.id, Method::Run { task: task.into() });
        let mut call = tokio::select! {
            biased;
            reason = &mut self.cancelled => return (Err(cancelled(reason)), Shutdown::Graceful),
            call = call => match call {
                Ok(call) => call,
                Err(closed) => return (Err(self.agent.crashed(&closed.0)), Shutdown::Kill),
            },
        };
        loop {
            let cancel_sent = self.cancel_sent;
            let event = tokio::select! {
                biased;
                reason = &mut self.cancelled, if cancel_sent.is_none() => {
                    self.cancel(&call, reason);
                    continue;
                }
                reason = grace_expired(cancel_sent) => {
                    return (Err(self.ignored_cancel(reason).await), Shutdown::Terminate);
                }
                event = call.next_event() => event,
            };
            match event {
                CallEvent::Ended(outcome) => {
                    let closed = matches!(outcome, CallOutcome::SessionClosed(_));
                    let shutdown = if closed { Shutdown::Kill } else { Shutdown::Graceful };
                    return (self.finish(outcome), shutdown);
                }
                CallEvent::PreviewRequested { request, final_text } => {
                    self.preview(&call, request, final_text.as_deref()).await;
                }
                CallEvent::WriteCheckRequested { request, path } => {
                    // A relative path says nothing of where it leads.
                    let refused = !path.is_absolute() || self.events.is_write_refused(&path).await;
                    call.send_write_check(request, refused);
                }
                CallEvent::GuidanceRequested { request } => {
                    call.send_guidance(request, self.events.take_guidance());
                }
                CallEvent::Agent(event) => self.emit(&call, event).await,
                CallEvent::Stderr(text) => self.emit(&call, Event::Stderr { text }).await,
                CallEvent::Log(line) => self.emit(&call, self.agent.logged(&line)).await,
            }
        }
    }

    fn cancel(&mut self, call: &CallHandle, reason: CancelReason) {
        self.cancel_sent = Some((reason, Instant::now() + CANCEL_GRACE));
        call.cancel(reason, CANCEL_GRACE);
    }

    /// Emits an event. A sink that is full does not delay a cancellation.
    async fn emit(&mut self, call: &CallHandle, event: Event) {
        self.turn.spend(event.weight()).await;
        let mut emitted = self.events.emit(event);
        if self.cancel_sent.is_none() {
            tokio::select! {
                biased;
                () = &mut emitted => return,
                reason = &mut self.cancelled => self.cancel(call, reason),
            }
        }
        emitted.await;
    }

    async fn preview(&mut self, call: &CallHandle, request: u64, final_text: Option<&str>) {
        let preview = tokio::select! {
            biased;
            preview = self.events.preview(final_text) => preview,
            reason = &mut self.cancelled, if self.cancel_sent.is_none() => {
                self.cancel(call, reason);
                return;
            }
        };
        call.send_preview(request, preview);
    }

    /// Reports a plugin that did not end in time.
    async fn ignored_cancel(&mut self, reason: CancelReason) -> AgentError {
        let why = cancel_ignored(CANCEL_GRACE);
        let message = self.agent.plugin.describe_error(&why);
        self.events.emit(Event::Warning { message }).await;
        let error = cancelled(reason);
        AgentError { message: format!("{}; {why}", error.message), ..error }
    }

    fn finish(&self, outcome: CallOutcome) -> Result<Report, AgentError> {
        let result = match outcome {
            CallOutcome::Done(Answer::Report(report)) => Ok(report),
            CallOutcome::Failed(error) => {
                let message = self.agent.plugin.describe_error(&error.message);
                Err(AgentError { message, ..error })
            }
            outcome => Err(self.agent.crashed(&failure_message(outcome))),
        };
        let Some((reason, _)) = self.cancel_sent else { return result };
        let report = match result {
            Ok(report) => report,
            Err(error) => *error.report,
        };
        Err(cancelled(reason).with_report(report))
    }
}

fn cancelled(reason: CancelReason) -> AgentError {
    let message = format!("the agent was cancelled: {}", reason.because());
    AgentError::new(ErrorClass::Cancelled, message)
}

/// Returns what is reported of a plugin that did not end a cancelled call.
pub(crate) fn cancel_ignored(grace: Duration) -> String {
    format!("it did not end within {} s of being cancelled and was killed", grace.as_secs())
}

/// Adds the process's exit to the report.
fn add_exit(
    result: Result<Report, AgentError>,
    exit: &Exit,
    is_attached: bool,
) -> Result<Report, AgentError> {
    let add = |report: &mut Report| {
        report.add_leftovers(Leftovers::new(exit.left_behind.clone(), exit.survived.clone()));
        let ending = || if is_attached { "attached".to_owned() } else { exit.ending.to_string() };
        report.exit.get_or_insert_with(ending);
    };
    match result {
        Ok(mut report) => {
            add(&mut report);
            Ok(report)
        }
        Err(mut error) => {
            add(&mut error.report);
            // The text of a failed iteration is not a claim.
            error.report.final_text = None;
            Err(error)
        }
    }
}

/// Waits for the end of the grace period; for ever if the call was not cancelled.
async fn grace_expired(cancel_sent: Option<(CancelReason, Instant)>) -> CancelReason {
    match cancel_sent {
        Some((reason, deadline)) => {
            sleep_until(deadline).await;
            reason
        }
        None => std::future::pending().await,
    }
}
