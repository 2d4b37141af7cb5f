//! Runs the program: passes on what it prints and ends it when that is asked for.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ralph_orchestrator_contract::{
    AgentError, CancelReason, ErrorClass, Event, EventSink, Leftovers, Report,
};
use ralph_orchestrator_supervisor::lines::LineSplitter;
use ralph_orchestrator_supervisor::{
    Chunk, Exit, Process, SpawnError, Spec, Step, Stop, Stream, Supervisor, TurnBudget,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use tracing::{debug, info};

use crate::output::{Ended, Output};

/// How long a structured agent may take to exit after it has said all. Some never do.
pub const LINGER: Duration = Duration::from_secs(10);
/// How often the output is asked what the agent tells elsewhere.
const GLANCE: Duration = Duration::from_secs(1);
/// Longest line of standard error, in bytes.
const STDERR_LINE_MAX: usize = 64 * 1024;
/// How much of the end of standard error goes into an error's message, in bytes.
const STDERR_TAIL_MAX: usize = 2 * 1024;

/// One run of the program.
pub struct Drive<'a> {
    events: &'a dyn EventSink,
    cancelled: Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>,
    output: Box<dyn Output>,
    stderr: LineSplitter,
    stderr_tail: String,
    linger: Duration,
    /// Said all at that time, plus the time to exit.
    deadline: Option<Instant>,
    stopped: Option<Why>,
    turn: TurnBudget,
    glances: Interval,
}

/// Why the program was told to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Cancelled(CancelReason),
    Lingering,
}

/// What happens next.
enum Next {
    Step(Step),
    Glance,
}

impl<'a> Drive<'a> {
    /// Tells the sink what the output means. A process that has said all may take `linger` to exit.
    #[must_use]
    pub fn new(events: &'a dyn EventSink, output: Box<dyn Output>, linger: Duration) -> Self {
        let mut glances = interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            events,
            cancelled: events.cancelled(),
            output,
            stderr: LineSplitter::new(STDERR_LINE_MAX),
            stderr_tail: String::new(),
            linger,
            deadline: None,
            stopped: None,
            turn: TurnBudget::default(),
            glances,
        }
    }

    /// Runs it to its end; when this returns, all of its processes are gone.
    ///
    /// # Errors
    /// It could not be started, it ended badly, by its own account or by its exit status, or the
    /// orchestrator asked for the end.
    pub async fn run(mut self, supervisor: &Supervisor, spec: Spec) -> Result<Report, AgentError> {
        let asked_before = tokio::select! {
            biased;
            _ = &mut self.cancelled => true,
            () = std::future::ready(()) => false,
        };
        if asked_before {
            let message = "the agent was not started because the orchestrator asked for the end";
            return Err(AgentError::new(ErrorClass::Cancelled, message));
        }
        debug!(program = %spec.program.display(), args = spec.args.len(), "agent is started");
        let mut process = supervisor.spawn(spec).await.map_err(|error| not_started(&error))?;
        loop {
            let events = match self.next(&mut process).await {
                Next::Step(Step::Printed(chunk)) => self.read(&chunk),
                Next::Step(Step::Gone(exit)) => return self.conclude(exit).await,
                Next::Glance => self.output.glance(),
            };
            for event in events {
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
    async fn next(&mut self, process: &mut Process) -> Next {
        loop {
            let (running, deadline) = (self.stopped.is_none(), self.deadline);
            let why = tokio::select! {
                biased;
                reason = &mut self.cancelled, if running => Why::Cancelled(reason),
                () = until(deadline), if running => Why::Lingering,
                step = process.step() => return Next::Step(step),
                _ = self.glances.tick() => return Next::Glance,
            };
            self.stop(process, why);
        }
    }

    /// Hands an event over; a sink that is full does not keep the program from being ended.
    async fn emit(&mut self, process: &Process, event: Event) {
        self.turn.spend(event.weight()).await;
        let mut emitted = self.events.emit(event);
        if self.stopped.is_none() {
            tokio::select! {
                biased;
                () = &mut emitted => return,
                reason = &mut self.cancelled => self.stop(process, Why::Cancelled(reason)),
            }
        }
        emitted.await;
    }

    fn stop(&mut self, process: &Process, why: Why) {
        // An agent that has said everything before it was told to end came to a good end.
        match why {
            Why::Cancelled(reason) => info!(?reason, "agent is told to end"),
            Why::Lingering => info!("agent has said all but does not exit"),
        }
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
        debug!(exit = %exit.ending, "agent has ended");
        let tail = &mut self.stderr_tail;
        let mut rest = Vec::new();
        self.stderr.finish(|line| rest.push(stderr(&line.text, tail)));
        let ended = Ended {
            exit: exit.ending.to_string(),
            hint: exit.hint(),
            well: exit.ending.is_success() || self.stopped == Some(Why::Lingering),
            cancelled: match self.stopped {
                Some(Why::Cancelled(reason)) => Some(reason),
                _ => None,
            },
            leftovers: Leftovers::new(exit.left_behind, exit.survived),
            stderr: self.stderr_tail,
        };
        let (events, result) = self.output.finish(ended);
        for event in rest.into_iter().chain(events) {
            self.events.emit(event).await;
        }
        result
    }
}

/// The program could not be started.
#[must_use]
pub fn not_started(error: &SpawnError) -> AgentError {
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
        // Where it was cut has to be seen: what stands there may be the rest of a secret.
        tail.replace_range(..surplus, "…");
    }
    Event::Stderr { text: line.to_owned() }
}
