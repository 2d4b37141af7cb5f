//! Runs an agent's process to its end, and ends it when that is asked for.

use std::future::Future;
use std::pin::Pin;

use ralph_orchestrator_contract::{
    AgentError, CancelReason, ErrorClass, Event, EventSink, Leftovers, Report,
};
use ralph_orchestrator_supervisor::{
    Chunk, Ending, Exit, Input, Process, ProcessEvent, SpawnError, Spec, Stream, Supervisor,
    TurnBudget,
};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info};

use crate::line_reader::{LineReader, OutputLine, StderrReader};
use crate::process_handler::{ProcessEnd, ProcessHandler};

/// One run of an agent's process: the only loop that reads one.
pub struct ProcessRun<'a, H> {
    process: Process,
    handler: H,
    events: &'a dyn EventSink,
    cancellation: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
    /// The orchestrator asked for the end.
    cancel_requested: bool,
    /// Why, if the agent had not reported its result by then.
    cancelled: Option<CancelReason>,
    stopped: bool,
    stdout: LineReader,
    stderr: StderrReader,
    turn: TurnBudget,
}

impl<'a, H: ProcessHandler> ProcessRun<'a, H> {
    /// Creates the run of a process that was started.
    #[must_use]
    pub fn new(process: Process, events: &'a dyn EventSink, handler: H) -> Self {
        Self {
            process,
            handler,
            events,
            cancellation: events.cancelled(),
            cancel_requested: false,
            cancelled: None,
            stopped: false,
            stdout: LineReader::default(),
            stderr: StderrReader::default(),
            turn: TurnBudget::default(),
        }
    }

    /// Runs the process to its end; when this returns, all of its processes are gone.
    ///
    /// # Errors
    /// The agent failed by its own account, its process ended badly, or the orchestrator asked for the end.
    pub async fn run(mut self) -> Result<Report, AgentError> {
        self.handler.start();
        self.perform_actions().await;
        let exit = loop {
            let deadline = self.handler.actions().deadline().filter(|_| !self.stopped);
            tokio::select! {
                biased;
                reason = &mut self.cancellation, if !self.cancel_requested => self.cancel(reason),
                // Before what is printed next, so that no more than a piece of output waits for it.
                () = self.handler.wait() => {}
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    info!("agent took too long");
                    self.handler.deadline_passed();
                }
                event = self.process.next_event() => match event {
                    ProcessEvent::Output(chunk) => self.read(&chunk).await,
                    ProcessEvent::Exited(exit) => break exit,
                },
            }
            self.perform_actions().await;
        };
        debug!(exit = %exit.ending, "agent has ended");
        // There is nothing left to cancel.
        self.cancel_requested = true;
        let last = self.stderr.finish();
        self.handler.actions().emit_all(last);
        match self.stdout.finish().map(OutputLine::into_whole) {
            Some(Ok(line)) => self.handler.read_line(line),
            Some(Err(events)) => self.handler.actions().emit_all(events),
            None => {}
        }
        self.handler.end_of_output();
        self.perform_actions().await;
        self.handler.exited().await;
        self.perform_actions().await;
        let end = self.end(exit);
        self.handler.finish(end)
    }

    async fn read(&mut self, chunk: &Chunk) {
        match chunk.stream {
            Stream::Stdout if H::READS_LINES => {
                for piece in chunk.bytes.split_inclusive(|byte| *byte == b'\n') {
                    for line in self.stdout.push(piece) {
                        match line.into_whole() {
                            Ok(line) => self.handler.read_line(line),
                            Err(events) => self.handler.actions().emit_all(events),
                        }
                    }
                    // Not every line makes an event.
                    self.turn.spend(piece.len()).await;
                    self.perform_actions().await;
                }
            }
            Stream::Stdout => self.handler.read_bytes(&chunk.bytes),
            Stream::Stderr => {
                let events = self.stderr.push(&chunk.bytes);
                self.handler.actions().emit_all(events);
            }
        }
    }

    fn cancel(&mut self, reason: CancelReason) {
        info!(?reason, "agent is told to end");
        self.cancel_requested = true;
        if !self.handler.is_done() {
            self.cancelled = Some(reason);
        }
        self.handler.cancel(reason);
        self.stop_if_wanted();
    }

    fn stop_if_wanted(&mut self) {
        if let Some(how) = self.handler.actions().stop.take() {
            self.stopped = true;
            self.process.stop(how);
        }
    }

    async fn perform_actions(&mut self) {
        loop {
            self.stop_if_wanted();
            let events = self.handler.actions().take_events();
            if events.is_empty() {
                return;
            }
            for event in events {
                self.emit(event).await;
            }
        }
    }

    /// Hands an event over; a sink that is full does not keep the process from being ended.
    async fn emit(&mut self, event: Event) {
        self.turn.spend(event.weight()).await;
        let mut emitted = self.events.emit(event);
        if !self.cancel_requested {
            tokio::select! {
                biased;
                () = &mut emitted => return,
                reason = &mut self.cancellation => self.cancel(reason),
            }
        }
        emitted.await;
    }

    fn end(&mut self, exit: Exit) -> ProcessEnd {
        let done_when_stopped = self.stopped && self.cancelled.is_none();
        ProcessEnd {
            exit: exit.ending.to_string(),
            hint: exit.hint(),
            success: exit.ending.is_success() || done_when_stopped,
            is_missing_program: matches!(exit.ending, Ending::Exited(126 | 127)),
            cancelled: self.cancelled,
            leftovers: Leftovers::new(exit.left_behind, exit.survived),
            stderr: std::mem::take(&mut self.stderr).into_tail(),
        }
    }
}

/// Starts a process that reads what the specification gives it.
///
/// # Errors
/// The process cannot be started, or the orchestrator has asked for the end already.
pub async fn spawn(
    supervisor: &Supervisor,
    spec: Spec,
    events: &dyn EventSink,
) -> Result<Process, AgentError> {
    prepare(&spec, events).await?;
    supervisor.spawn(spec).await.map_err(|error| not_started(&error))
}

/// Starts a process that reads what is sent to it while it runs.
///
/// # Errors
/// The same as those of [`spawn`].
pub async fn spawn_with_input(
    supervisor: &Supervisor,
    spec: Spec,
    events: &dyn EventSink,
) -> Result<(Process, Input), AgentError> {
    prepare(&spec, events).await?;
    supervisor.spawn_with_input(spec).await.map_err(|error| not_started(&error))
}

async fn prepare(spec: &Spec, events: &dyn EventSink) -> Result<(), AgentError> {
    let is_cancelled = tokio::select! {
        biased;
        _ = events.cancelled() => true,
        () = std::future::ready(()) => false,
    };
    if is_cancelled {
        let message = "the agent was not started because the orchestrator asked for the end";
        return Err(AgentError::new(ErrorClass::Cancelled, message));
    }
    debug!(program = %spec.program.display(), args = spec.args.len(), "agent is started");
    Ok(())
}

fn not_started(error: &SpawnError) -> AgentError {
    let class = match error {
        SpawnError::TooLong { .. } | SpawnError::Nul { .. } => ErrorClass::InvalidRequest,
        _ => ErrorClass::Unavailable,
    };
    AgentError::new(class, error.to_string())
}
