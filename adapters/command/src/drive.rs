//! Runs the program: passes on what it prints and ends it when that is asked for.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestrator::contract::{AgentError, CancelReason, ErrorClass, Event, EventSink, Report};
use ralph_orchestrator_supervise::lines::LineSplitter;
use ralph_orchestrator_supervise::{
    Chunk, Exit, Process, SpawnError, Spec, Step, Stop, Stream, Supervisor,
};
use tokio::time::{Instant, sleep_until};

use crate::output::{Ended, Output};

/// How long a structured agent may take to exit after it has said all. Some never do.
pub(crate) const LINGER: Duration = Duration::from_secs(10);
/// Longest line of standard error, in bytes.
const STDERR_LINE_MAX: usize = 64 * 1024;
/// How much of the end of standard error goes into an error's message, in bytes.
const STDERR_TAIL_MAX: usize = 2 * 1024;

/// One run of the program.
pub(crate) struct Drive<'a> {
    events: &'a dyn EventSink,
    cancelled: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
    output: Output,
    stderr: LineSplitter,
    stderr_tail: String,
    linger: Duration,
    /// Said all at that time, plus the time to exit.
    deadline: Option<Instant>,
    stopped: Option<Why>,
}

/// Why the program was told to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Cancelled,
    Lingering,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(events: &'a dyn EventSink, output: Output, linger: Duration) -> Self {
        Self {
            events,
            cancelled: events.cancelled(),
            output,
            stderr: LineSplitter::new(STDERR_LINE_MAX),
            stderr_tail: String::new(),
            linger,
            deadline: None,
            stopped: None,
        }
    }

    /// Runs it to its end; when this returns, all of its processes are gone.
    pub(crate) async fn run(
        mut self,
        supervisor: &Supervisor,
        spec: Spec,
    ) -> Result<Report, AgentError> {
        let asked_before = tokio::select! {
            biased;
            _ = &mut self.cancelled => true,
            () = std::future::ready(()) => false,
        };
        if asked_before {
            let message = "the agent was not started because the orchestrator asked for the end";
            return Err(AgentError::new(ErrorClass::Cancelled, message));
        }
        let mut process = supervisor.spawn(spec).await.map_err(|error| not_started(&error))?;
        loop {
            let chunk = match self.next(&mut process).await {
                Step::Printed(chunk) => chunk,
                Step::Gone(exit) => return self.conclude(exit).await,
            };
            for event in self.read(&chunk) {
                self.emit(&process, event).await;
            }
            self.deadline = match (self.output.done(), self.deadline) {
                (false, _) => None,
                (true, None) => Some(Instant::now() + self.linger),
                (true, deadline) => deadline,
            };
        }
    }

    /// What the program does next; meanwhile sees to it that it ends when it has to.
    async fn next(&mut self, process: &mut Process) -> Step {
        loop {
            let (running, deadline) = (self.stopped.is_none(), self.deadline);
            let why = tokio::select! {
                biased;
                _ = &mut self.cancelled, if running => Why::Cancelled,
                () = until(deadline), if running => Why::Lingering,
                step = process.step() => return step,
            };
            self.stop(process, why);
        }
    }

    /// Hands an event over; a sink that is full does not keep the program from being ended.
    async fn emit(&mut self, process: &Process, event: Event) {
        let mut emitted = self.events.emit(event);
        if self.stopped.is_none() {
            tokio::select! {
                biased;
                () = &mut emitted => return,
                _ = &mut self.cancelled => self.stop(process, Why::Cancelled),
            }
        }
        emitted.await;
    }

    fn stop(&mut self, process: &Process, why: Why) {
        // An agent that has said everything before it was told to end came to a good end.
        self.stopped = Some(if self.output.done() { Why::Lingering } else { why });
        process.stop(Stop::Gracefully);
    }

    fn read(&mut self, chunk: &Chunk) -> Vec<Event> {
        match chunk.stream {
            Stream::Stdout => self.output.push(&chunk.bytes),
            Stream::Stderr => {
                let (mut events, tail) = (Vec::new(), &mut self.stderr_tail);
                self.stderr.push(&chunk.bytes, |line| events.push(stderr(&line.text, tail)));
                events
            }
        }
    }

    async fn conclude(mut self, exit: Exit) -> Result<Report, AgentError> {
        let tail = &mut self.stderr_tail;
        let mut rest = Vec::new();
        self.stderr.finish(|line| rest.push(stderr(&line.text, tail)));
        let ended = Ended {
            exit: exit.ending.to_string(),
            hint: exit.hint(),
            well: exit.ending.is_success() || self.stopped == Some(Why::Lingering),
            cancelled: self.stopped == Some(Why::Cancelled),
            left_behind: exit.left_behind,
            stderr: self.stderr_tail,
        };
        let (events, result) = self.output.finish(ended);
        for event in rest.into_iter().chain(events) {
            self.events.emit(event).await;
        }
        result
    }
}

fn not_started(error: &SpawnError) -> AgentError {
    let class = match error {
        SpawnError::TooLong { .. } | SpawnError::Nul { .. } => ErrorClass::InvalidRequest,
        _ => ErrorClass::Unavailable,
    };
    AgentError::new(class, error.to_string())
}

/// Never, if there is no deadline.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn stderr(line: &str, tail: &mut String) -> Event {
    tail.push_str(line);
    tail.push('\n');
    if tail.len() > STDERR_TAIL_MAX {
        let surplus = tail.ceil_char_boundary(tail.len() - STDERR_TAIL_MAX);
        tail.drain(..surplus);
    }
    Event::Stderr { text: line.to_owned() }
}
