//! One process of the agent, from its start to its end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ralph_adapter_common::{Ended, LINGER, Printed, Printout, conclude};
use ralph_orchestrator_contract::{
    AgentError, CancelReason, ErrorClass, Event, EventSink, Leftovers, Report,
};
use ralph_orchestrator_supervisor::{Chunk, Exit, Input, Process, Step, Stop, TurnBudget};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::failure::Failure;
use crate::permission::Judge;
use crate::talk::{Ends, Progress, Turn, Wanted, talk};
use crate::told::Told;

/// How long the agent may take to cancel its work before it is told by signals.
const CANCELLING: Duration = Duration::from_secs(3);
/// How long the conversation may take to notice that the agent is gone.
const HANGING_UP: Duration = Duration::from_secs(5);

type Cancelled<'a> = Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>;
type Talking = Pin<Box<dyn Future<Output = Result<Turn, Failure>> + Send>>;

pub(crate) struct Session<'a> {
    process: Process,
    events: &'a dyn EventSink,
    signal: Cancelled<'a>,
    /// Why the orchestrator wants the end, if it came before the agent's own.
    cancelled: Option<CancelReason>,
    talking: Option<Talking>,
    lines: Option<mpsc::UnboundedSender<String>>,
    progress: mpsc::UnboundedReceiver<Progress>,
    cancel: watch::Sender<bool>,
    judge: Arc<Judge>,
    told: Told,
    printout: Printout,
    stage: Stage,
    /// When the stage has to be over.
    until: Option<Instant>,
    id: Option<String>,
    about: String,
    outcome: Option<Result<Turn, Failure>>,
    stopped: bool,
    warned: bool,
    turn_budget: TurnBudget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Working,
    Cancelling,
    /// All was said.
    Leaving,
}

enum Next {
    Cancelled(CancelReason),
    Progress(Progress),
    Talked(Result<Turn, Failure>),
    Overdue,
    Did(Step),
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        process: Process,
        input: Input,
        wanted: Wanted,
        judge: Arc<Judge>,
        events: &'a dyn EventSink,
    ) -> Self {
        let (lines, received) = mpsc::unbounded_channel();
        let (telling, progress) = mpsc::unbounded_channel();
        let (cancel, cancelled) = watch::channel(false);
        let ends = Ends { input, lines: received, progress: telling, cancel: cancelled };
        Self {
            process,
            events,
            signal: events.cancelled(),
            cancelled: None,
            talking: Some(Box::pin(talk(ends, wanted, Arc::clone(&judge)))),
            lines: Some(lines),
            progress,
            cancel,
            judge,
            told: Told::default(),
            printout: Printout::default(),
            stage: Stage::Starting,
            until: None,
            id: None,
            about: String::new(),
            outcome: None,
            stopped: false,
            warned: false,
            turn_budget: TurnBudget::default(),
        }
    }

    /// Runs to the process's end. The report comes with what the agent said of itself.
    pub(crate) async fn run(mut self) -> (String, Result<Report, AgentError>) {
        let exit = loop {
            match self.next().await {
                Next::Cancelled(reason) => self.cancel(reason),
                Next::Progress(progress) => self.progressed(progress).await,
                Next::Talked(outcome) => self.talked(outcome).await,
                Next::Overdue => self.stop(Stop::Gracefully),
                Next::Did(Step::Printed(chunk)) => self.read(&chunk).await,
                Next::Did(Step::Gone(exit)) => break exit,
            }
        };
        let rest = self.printout.rest();
        self.take(rest).await;
        self.hang_up().await;
        self.finish(exit)
    }

    async fn next(&mut self) -> Next {
        let talking = async {
            match &mut self.talking {
                Some(talking) => talking.await,
                None => std::future::pending().await,
            }
        };
        let until = self.until.filter(|_| !self.stopped);
        tokio::select! {
            biased;
            reason = &mut self.signal, if self.cancelled.is_none() && self.outcome.is_none() => {
                Next::Cancelled(reason)
            }
            Some(progress) = self.progress.recv() => Next::Progress(progress),
            // Before what comes next, so that no more than a piece of output waits for it.
            outcome = talking => Next::Talked(outcome),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                Next::Overdue
            }
            step = self.process.step() => Next::Did(step),
        }
    }

    fn stop(&mut self, how: Stop) {
        self.stopped = true;
        self.process.stop(how);
    }

    /// An agent at work is asked to cancel it, and has some time for that.
    fn cancel(&mut self, reason: CancelReason) {
        self.cancelled = Some(reason);
        if self.stage == Stage::Working {
            self.stage = Stage::Cancelling;
            self.until = Some(Instant::now() + CANCELLING);
            self.cancel.send_replace(true);
        } else {
            self.stop(Stop::Terminate);
        }
    }

    async fn progressed(&mut self, progress: Progress) {
        match progress {
            Progress::There { about } => self.about = about,
            Progress::Session { id, model } => {
                self.id = Some(id.clone());
                self.emit(Event::Session { id, model }).await;
            }
            Progress::Prompted if self.stage == Stage::Starting => self.stage = Stage::Working,
            Progress::Prompted => {}
        }
    }

    /// The agent's turn is over, and its input closed with the conversation: it should end by itself.
    async fn talked(&mut self, outcome: Result<Turn, Failure>) {
        self.talking = None;
        self.lines = None;
        let mut events = Vec::new();
        self.told.flush(&mut events);
        if let Ok(Turn { tokens: Some(tokens), .. }) = &outcome {
            self.told.tokens(*tokens, &mut events);
        }
        self.outcome = Some(outcome);
        self.emit_all(events).await;
        self.stage = Stage::Leaving;
        self.until = Some(Instant::now() + LINGER);
        if self.cancelled.is_some() {
            self.stop(Stop::Terminate);
        }
    }

    /// The agent is gone: what it has answered was passed on already.
    async fn hang_up(&mut self) {
        self.lines = None;
        while let Ok(progress) = self.progress.try_recv() {
            self.progressed(progress).await;
        }
        let Some(talking) = self.talking.take() else { return };
        let outcome = timeout(HANGING_UP, talking).await.unwrap_or_else(|_| {
            Err(Failure::new(ErrorClass::Crashed, "the agent ended without an answer"))
        });
        while let Ok(progress) = self.progress.try_recv() {
            self.progressed(progress).await;
        }
        self.talked(outcome).await;
    }

    async fn read(&mut self, chunk: &Chunk) {
        let printed = self.printout.take(chunk);
        self.take(printed).await;
    }

    async fn take(&mut self, printed: Vec<Printed>) {
        for line in printed {
            match line {
                Printed::Stderr(text) => self.emit(Event::Stderr { text }).await,
                Printed::Cut { line, bytes } => {
                    self.emit(Event::Raw { line }).await;
                    self.emit(Printed::too_long(bytes)).await;
                }
                Printed::Line(line) => self.line(line).await,
            }
        }
    }

    async fn line(&mut self, line: String) {
        // Not every line makes an event.
        self.turn_budget.spend(line.len()).await;
        if line.trim().is_empty() {
            return;
        }
        self.emit(Event::Raw { line: line.clone() }).await;
        let value = serde_json::from_str::<Value>(&line).ok();
        let Some(message) = value.filter(|value| value.get("jsonrpc").is_some()) else {
            if !std::mem::replace(&mut self.warned, true) {
                let message = format!(
                    "the agent prints what is no message of its protocol, such as: {line:.200}"
                );
                self.emit(Event::Warning { message }).await;
            }
            return;
        };
        let method = message.get("method").and_then(Value::as_str);
        let params = message.get("params").unwrap_or(&Value::Null);
        let is_request = message.get("id").is_some();
        let events = match method {
            Some("session/update") if !is_request && self.is_ours(params) => {
                self.told.update(params.get("update").unwrap_or(&Value::Null))
            }
            Some("_claude/sdkMessage") if !is_request && self.is_ours(params) => {
                self.told.claude(params.get("message").unwrap_or(&Value::Null), self.id.as_deref())
            }
            Some("session/request_permission") if is_request => self.told.asked(params),
            _ => Vec::new(),
        };
        self.emit_all(events).await;
        if is_request && let Some(lines) = &self.lines {
            // The conversation may be over; then nobody needs it.
            let _ = lines.send(line);
        }
    }

    /// Agents may tell of sessions that they began themselves, for agents of their own.
    fn is_ours(&self, params: &Value) -> bool {
        let id = params.get("sessionId").and_then(Value::as_str);
        self.id.is_none() || id == self.id.as_deref()
    }

    async fn emit_all(&mut self, events: Vec<Event>) {
        for event in events {
            self.emit(event).await;
        }
    }

    /// Hands an event over. The orchestrator may want the end just while it is slow to take one.
    async fn emit(&mut self, event: Event) {
        self.turn_budget.spend(event.weight()).await;
        let mut emit = self.events.emit(event);
        let reason = tokio::select! {
            biased;
            () = &mut emit => return,
            reason = &mut self.signal, if self.cancelled.is_none() && self.outcome.is_none() => {
                reason
            }
        };
        self.cancel(reason);
        emit.await;
    }

    fn finish(self, exit: Exit) -> (String, Result<Report, AgentError>) {
        let turn = self.outcome.unwrap_or_else(|| {
            Err(Failure::new(ErrorClass::Crashed, "the agent ended without an answer"))
        });
        // A failure that the agent tells in its text is nothing that it says.
        let failure = match turn {
            Ok(turn) => turn.failure.or_else(|| self.told.failure()),
            Err(failure) => Some(failure),
        };
        let report = Report {
            final_text: self.told.final_text(),
            usage: self.told.usage(),
            session: self.id,
            denied: self.judge.denied(),
            ..Report::default()
        };
        let explained = failure.as_ref().is_some_and(|failure| {
            !matches!(failure.class, ErrorClass::Crashed | ErrorClass::Unavailable)
        });
        let crashed = failure.as_ref().is_some_and(|failure| failure.class == ErrorClass::Crashed);
        let ended = Ended {
            exit: exit.ending.to_string(),
            hint: if explained { None } else { exit.hint() },
            // How it ends once its turn has ended says nothing of the turn.
            well: failure.is_none() || self.stopped || (exit.ending.is_success() && !crashed),
            cancelled: self.cancelled,
            leftovers: Leftovers::new(exit.left_behind, exit.survived),
            stderr: if explained { String::new() } else { self.printout.stderr() },
        };
        let result = match failure {
            None => Ok(report),
            Some(Failure { class, message }) => {
                Err(AgentError::new(class, message).with_report(report))
            }
        };
        (self.about, conclude(result, ended))
    }
}
