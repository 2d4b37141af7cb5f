//! One process of `claude`, from its start to its end.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestrator::contract::{AgentError, CancelReason, ErrorClass, Event, EventSink, Report};
use ralph_adapter_claude_stream::{Ended, Parser};
use ralph_orchestrator_supervise::lines::{Line, LineSplitter};
use ralph_orchestrator_supervise::{Capture, CaptureLimit, Chunk, Exit, Process, Stop, Stream};
use tokio::time::{Instant, sleep_until};

/// Longest line of the protocol: tool results with whole files are among them.
const MAX_LINE: usize = 8 * 1024 * 1024;
const MAX_STDERR_LINE: usize = 64 * 1024;
/// So much of the standard error's end is kept for messages.
const STDERR_TAIL: CaptureLimit = CaptureLimit { head: 0, tail: 4096 };
/// How long the process may go on after its result: it has been seen to hang there for ever.
const AFTER_RESULT: Duration = Duration::from_secs(10);

type Cancelled<'a> = Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>;

/// A line, with how many bytes of it were dropped.
type Cut = (String, u64);

pub(crate) struct Session<'a> {
    process: Process,
    events: &'a dyn EventSink,
    signal: Cancelled<'a>,
    /// Why the orchestrator wants the end, and whether that came before the result.
    cancelled: Option<(CancelReason, bool)>,
    parser: Parser,
    stdout: LineSplitter,
    stderr: LineSplitter,
    stderr_tail: Capture,
    patience: Patience,
}

/// When the process has to be gone, once its result is there.
#[derive(Debug, Default)]
struct Patience {
    until: Option<Instant>,
    over: bool,
}

enum Next {
    Output(Chunk),
    Ended(Exit),
    Cancelled(CancelReason),
    Overdue,
}

impl<'a> Session<'a> {
    pub(crate) fn new(process: Process, events: &'a dyn EventSink) -> Self {
        Self {
            process,
            events,
            signal: events.cancelled(),
            cancelled: None,
            parser: Parser::new(),
            stdout: LineSplitter::new(MAX_LINE),
            stderr: LineSplitter::new(MAX_STDERR_LINE),
            stderr_tail: Capture::new(STDERR_TAIL),
            patience: Patience::default(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<Report, AgentError> {
        let exit = loop {
            match self.next().await {
                Next::Output(chunk) => self.take(&chunk).await,
                Next::Ended(exit) => break exit,
                Next::Cancelled(reason) => self.cancel(reason),
                Next::Overdue => {
                    self.patience.over = true;
                    self.process.stop(Stop::Terminate);
                }
            }
            self.patience.update(self.parser.has_result());
        };
        self.take_rest().await;
        if !exit.survived.is_empty() {
            let names = exit.survived.join(", ");
            let message = format!("these processes of the agent could not be ended: {names}");
            self.emit(Event::Warning { message }).await;
        }
        self.finish(exit)
    }

    async fn next(&mut self) -> Next {
        let process = &mut self.process;
        // The streams may end before the process does.
        let proceed = async {
            match process.next().await {
                Some(chunk) => Next::Output(chunk),
                None => Next::Ended(process.wait().await),
            }
        };
        let until = self.patience.until.filter(|_| !self.patience.over);
        tokio::select! {
            biased;
            reason = &mut self.signal, if self.cancelled.is_none() => Next::Cancelled(reason),
            next = proceed => next,
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                Next::Overdue
            }
        }
    }

    fn cancel(&mut self, reason: CancelReason) {
        let early = !self.parser.has_result();
        self.cancelled = Some((reason, early));
        // An interrupted turn still tells what it has cost; after the result there is nothing to tell.
        self.process.stop(if early { Stop::Gracefully } else { Stop::Terminate });
    }

    async fn take(&mut self, chunk: &Chunk) {
        let mut lines: Vec<Cut> = Vec::new();
        let keep = |line: Line<'_>| lines.push((line.text.into_owned(), line.dropped));
        match chunk.stream {
            Stream::Stdout => self.stdout.push(&chunk.bytes, keep),
            Stream::Stderr => {
                self.stderr_tail.push(&chunk.bytes);
                self.stderr.push(&chunk.bytes, keep);
            }
        }
        self.tell(chunk.stream, lines).await;
    }

    /// Last lines without an end.
    async fn take_rest(&mut self) {
        let (mut stdout, mut stderr): (Vec<Cut>, Vec<Cut>) = Default::default();
        self.stdout.finish(|line| stdout.push((line.text.into_owned(), line.dropped)));
        self.stderr.finish(|line| stderr.push((line.text.into_owned(), line.dropped)));
        self.tell(Stream::Stdout, stdout).await;
        self.tell(Stream::Stderr, stderr).await;
    }

    async fn tell(&mut self, stream: Stream, lines: Vec<Cut>) {
        for (line, dropped) in lines {
            if stream == Stream::Stderr {
                self.emit(Event::Stderr { text: line }).await;
                continue;
            }
            let events = if dropped == 0 {
                self.parser.line(&line)
            } else {
                let message = format!(
                    "the agent printed a line of {} bytes, which is longer than can be read",
                    dropped.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX))
                );
                vec![Event::Warning { message }]
            };
            self.emit(Event::Raw { line }).await;
            for event in events {
                self.emit(event).await;
            }
        }
    }

    /// Hands an event over. The orchestrator may want the end just while it is slow to take one.
    async fn emit(&mut self, event: Event) {
        let mut emit = self.events.emit(event);
        let reason = tokio::select! {
            biased;
            () = &mut emit => return,
            reason = &mut self.signal, if self.cancelled.is_none() => reason,
        };
        self.cancel(reason);
        emit.await;
    }

    fn finish(self, exit: Exit) -> Result<Report, AgentError> {
        let cancelled = self.cancelled.filter(|(_, early)| *early).map(|(reason, _)| reason);
        let ended = Ended {
            cancelled: cancelled.is_some(),
            exit: Some(exit.to_string()),
            left_behind: exit.left_behind,
            stderr: self.stderr_tail.finish().text(),
        };
        self.parser.finish(ended).map_err(|mut error| {
            let more = match cancelled {
                Some(reason) => Some(reason.because()),
                None => advice(&error.class),
            };
            if let Some(more) = more {
                error.message.push_str("; ");
                error.message.push_str(more);
            }
            error
        })
    }
}

impl Patience {
    /// Begins with the result, and anew if another turn follows it.
    fn update(&mut self, has_result: bool) {
        self.until =
            has_result.then(|| self.until.unwrap_or_else(|| Instant::now() + AFTER_RESULT));
    }
}

/// What to do, where the class says it.
fn advice(class: &ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::Unauthenticated => Some(
            "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN in the environment, or run `claude` \
             once and log in with `/login`",
        ),
        ErrorClass::Billing => Some("buy credit for the account, or use another one"),
        ErrorClass::AgentLimit => {
            Some("raise `max_turns` or the limits on cost, or split the task")
        }
        ErrorClass::ContextExceeded => Some("shorten the prompt and the files that it names"),
        ErrorClass::RateLimited { .. }
        | ErrorClass::Overloaded
        | ErrorClass::InvalidRequest
        | ErrorClass::Crashed
        | ErrorClass::TimedOut
        | ErrorClass::Cancelled
        | ErrorClass::Unavailable => None,
    }
}
