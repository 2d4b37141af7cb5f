//! Agents of plugins.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use plugin_protocol::{Answer, ItemKind, LogLevel, Method, Provided};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, BuildError, CancelReason, Description, ErrorClass, Event,
    EventSink, Iteration, Leftovers, Report,
};
use ralph_orchestrator_supervisor::{Exit, Supervisor, TurnBudget};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::log;
use crate::plugin::{Entered, Plugin, Request, Seat, leave};
use crate::process::End;
use crate::running::{Running, Told};
use crate::session::OpenError;
use crate::talk::Outcome;

/// How long an agent may take to end when it was told to.
const GRACE: Duration = Duration::from_secs(5);
/// How long a check may take.
const CHECK: Duration = Duration::from_secs(30);

/// An agent of a plugin.
struct PluginAgent {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: Request,
    description: Description,
    /// In this process: a call was given up, and may still go on. Nothing else may work beside it.
    given_up: OnceLock<String>,
}

impl Plugin {
    /// Builds the agent `member`, or the only one. Its processes are started by `supervisor`.
    ///
    /// # Errors
    /// The plugin cannot be talked to, provides no such agent, or refuses the table.
    pub async fn agent(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError> {
        let request = Request {
            kind: ItemKind::Agent,
            member: member.map(str::to_owned),
            table,
            context: context.clone(),
        };
        let Provided::Agent(mut description) = self.describe(supervisor, &request).await? else {
            return Err(BuildError::at("", self.says("it provides something else than an agent")));
        };
        description.name = self.called(member);
        Ok(Box::new(PluginAgent {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            description,
            given_up: OnceLock::new(),
        }))
    }

    /// The name of an item, as in the configuration.
    pub(crate) fn called(&self, member: Option<&str>) -> String {
        member.map_or_else(|| self.name().to_owned(), |member| format!("{}/{member}", self.name()))
    }
}

/// How the work came to its end, and how the process has to.
type Worked = (Result<Report, AgentError>, Option<Seat>, End);

#[async_trait]
impl Agent for PluginAgent {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.still_usable()?;
        let entered = self.plugin.enter(&self.supervisor, env).await;
        let Entered { process, way } = entered.map_err(|why| self.unavailable(&why))?;
        let checked = async {
            let seat = self.plugin.sit(way, &self.request).await;
            let seat = seat.map_err(|error| self.unavailable(&error.to_string()))?;
            let method = Method::Check { env: env.clone() };
            let call = seat.session.call(seat.instance, method).await;
            let mut call = call.map_err(|broken| self.unavailable(&broken.0))?;
            let outcome = tokio::time::timeout(CHECK, call.outcome()).await;
            let found = match outcome {
                Ok(Outcome::Done(Answer::Found(found))) => found,
                Ok(Outcome::Failed(error)) => return Err(error),
                Ok(outcome) => return Err(self.unavailable(&broke(outcome))),
                Err(_) => {
                    let why = format!("it did not answer `check` within {} s", CHECK.as_secs());
                    return Err(self.unavailable(&why));
                }
            };
            Ok((found, seat))
        };
        let result = checked.await;
        let session = result.as_ref().ok().map(|(_, seat)| &*seat.session);
        leave(process, session, End::Gently).await;
        result.map(|(found, _)| found)
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        self.still_usable()?;
        let mut work = Work {
            agent: self,
            events,
            cancelled: events.cancelled(),
            told: None,
            turn: TurnBudget::default(),
        };
        if work.asked_before().await {
            let message = "the agent was not started because the orchestrator asked for the end";
            return Err(AgentError::new(ErrorClass::Cancelled, message));
        }
        let mut task = task;
        task.env.entry("RALPH_RUN_ID".to_owned()).or_insert_with(|| task.run.clone());
        task.env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| task.number.to_string());
        let entered = self.plugin.enter(&self.supervisor, &task.env).await;
        let Entered { process, way } = entered.map_err(|why| self.unavailable(&why))?;
        let sitting = self.plugin.sit(way, &self.request);
        let seat = tokio::select! {
            biased;
            reason = &mut work.cancelled => Err(cancelled(reason)),
            seat = sitting => seat.map_err(|error| self.not_opened(error)),
        };
        let (result, seat, end) = match seat {
            Ok(seat) => work.whole(seat, task).await,
            Err(error) => (Err(error), None, End::Kill),
        };
        let inside = process.is_none();
        let exit = leave(process, seat.as_ref().map(|seat| &*seat.session), end).await;
        if inside && end == End::Terminate {
            let why =
                "a call of it was given up and may still go on, so that it cannot begin another";
            self.given_up.get_or_init(|| why.to_owned());
        }
        conclude(result, exit)
    }
}

impl PluginAgent {
    fn still_usable(&self) -> Result<(), AgentError> {
        self.given_up.get().map_or(Ok(()), |why| Err(self.unavailable(why)))
    }

    fn unavailable(&self, why: &str) -> AgentError {
        AgentError::new(ErrorClass::Unavailable, self.plugin.says(why))
    }

    fn crashed(&self, why: &str) -> AgentError {
        AgentError::new(ErrorClass::Crashed, self.plugin.says(why))
    }

    /// It was started, but no agent came of it.
    fn not_opened(&self, error: OpenError) -> AgentError {
        match error {
            OpenError::Refused(error) => {
                let why = format!("it refuses its configuration now: {}", error.message);
                AgentError::new(ErrorClass::InvalidRequest, self.plugin.says(&why))
            }
            OpenError::Broken(broken) => self.crashed(&broken.0),
        }
    }
}

/// One iteration.
struct Work<'a> {
    agent: &'a PluginAgent,
    events: &'a dyn EventSink,
    cancelled: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
    /// It was told to end for this reason, and may take until then.
    told: Option<(CancelReason, Instant)>,
    turn: TurnBudget,
}

/// What happens next. Never kept.
#[allow(clippy::large_enum_variant)]
enum Next {
    Told(Told),
    Cancelled(CancelReason),
    GivenUp,
}

impl Work<'_> {
    async fn asked_before(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = &mut self.cancelled => true,
            () = std::future::ready(()) => false,
        }
    }

    async fn whole(mut self, seat: Seat, task: Iteration) -> Worked {
        let method = Method::Run { task: task.into() };
        let call = seat.session.call(seat.instance, method);
        let mut call = tokio::select! {
            biased;
            reason = &mut self.cancelled => return (Err(cancelled(reason)), Some(seat), End::Gently),
            call = call => match call {
                Ok(call) => call,
                Err(broken) => return (Err(self.agent.crashed(&broken.0)), Some(seat), End::Kill),
            },
        };
        loop {
            match self.next(&mut call).await {
                Next::Cancelled(reason) => self.cancel(&call, reason),
                Next::GivenUp => {
                    let error = self.told.map_or_else(
                        || self.agent.crashed("it was given up"),
                        |(reason, _)| cancelled(reason),
                    );
                    return (Err(error), Some(seat), End::Terminate);
                }
                Next::Told(Told::Ended(outcome)) => {
                    let broken = matches!(outcome, Outcome::Broken(_));
                    let end = if broken { End::Kill } else { End::Gently };
                    return (self.ended(outcome), Some(seat), end);
                }
                Next::Told(Told::Judge { ask, final_text }) => {
                    self.judge(&mut call, ask, final_text.as_deref()).await;
                }
                Next::Told(Told::Event(event)) => self.emit(&call, event).await,
                Next::Told(Told::Stderr(text)) => self.emit(&call, Event::Stderr { text }).await,
                Next::Told(Told::Log(line)) => {
                    let text = log::text(&line);
                    let event = if line.level <= LogLevel::Warn {
                        Event::Warning { message: self.agent.plugin.says(&text) }
                    } else {
                        Event::Stderr { text }
                    };
                    self.emit(&call, event).await;
                }
            }
        }
    }

    async fn next(&mut self, call: &mut Running) -> Next {
        let told = self.told;
        tokio::select! {
            biased;
            reason = &mut self.cancelled, if told.is_none() => Next::Cancelled(reason),
            () = until(told.map(|(_, at)| at)) => Next::GivenUp,
            told = call.next() => Next::Told(told),
        }
    }

    fn cancel(&mut self, call: &Running, reason: CancelReason) {
        self.told = Some((reason, Instant::now() + GRACE));
        call.cancel(reason, GRACE);
    }

    /// Hands an event over; a sink that is full does not keep the agent from being ended.
    async fn emit(&mut self, call: &Running, event: Event) {
        self.turn.spend(event.weight()).await;
        let mut emitted = self.events.emit(event);
        if self.told.is_none() {
            tokio::select! {
                biased;
                () = &mut emitted => return,
                reason = &mut self.cancelled => self.cancel(call, reason),
            }
        }
        emitted.await;
    }

    async fn judge(&mut self, call: &mut Running, ask: u64, final_text: Option<&str>) {
        let judgement = tokio::select! {
            biased;
            judgement = self.events.judge(final_text) => judgement,
            reason = &mut self.cancelled, if self.told.is_none() => {
                self.cancel(call, reason);
                return;
            }
        };
        call.answer(ask, judgement);
    }

    fn ended(&self, outcome: Outcome) -> Result<Report, AgentError> {
        let result = match outcome {
            Outcome::Done(Answer::Report(report)) => Ok(report),
            Outcome::Failed(error) => {
                let message = self.agent.plugin.says(&error.message);
                Err(AgentError { message, ..error })
            }
            outcome => Err(self.agent.crashed(&broke(outcome))),
        };
        let Some((reason, _)) = self.told else { return result };
        let report = match result {
            Ok(report) => report,
            Err(error) => *error.report,
        };
        Err(cancelled(reason).with_report(report))
    }
}

fn cancelled(reason: CancelReason) -> AgentError {
    let message = "the agent was ended because the orchestrator asked for it";
    AgentError::new(ErrorClass::Cancelled, format!("{message}: {}", reason.because()))
}

/// Why a call came to no answer.
pub(crate) fn broke(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done(_) => "it gave another answer than was asked for".to_owned(),
        Outcome::Failed(error) => error.message,
        Outcome::Panicked { message } => message,
        Outcome::Broken(why) => why,
    }
}

/// Joins what was said with how the process ended.
fn conclude(result: Result<Report, AgentError>, exit: Option<Exit>) -> Result<Report, AgentError> {
    let Some(exit) = exit else { return result.map_err(without_text) };
    let add = |report: &mut Report| {
        report.add_leftovers(Leftovers::new(exit.left_behind.clone(), exit.survived.clone()));
        report.exit.get_or_insert_with(|| exit.ending.to_string());
    };
    match result {
        Ok(mut report) => {
            add(&mut report);
            Ok(report)
        }
        Err(mut error) => {
            add(&mut error.report);
            Err(without_text(error))
        }
    }
}

/// Whatever was said in a failed iteration, it is no claim.
fn without_text(mut error: AgentError) -> AgentError {
    error.report.final_text = None;
    error
}

/// Never, if there is no deadline.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
