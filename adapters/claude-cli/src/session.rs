//! One process of `claude`, from its start to its end.

use std::future::Future;
use std::pin::Pin;

use ralph_adapter_common::claude_program::{AFTER_RESULT, explained};
use ralph_adapter_common::claude_stream::{Ended, Parser};
use ralph_adapter_common::{Printed, Printout as Output};
use ralph_orchestrator_contract::{AgentError, CancelReason, Event, EventSink, Leftovers, Report};
use ralph_orchestrator_supervisor::{Chunk, Exit, Process, Stop, TurnBudget};
use tokio::time::{Instant, sleep_until};

type Cancelled<'a> = Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>;

pub(crate) struct Session<'a> {
    process: Process,
    events: &'a dyn EventSink,
    signal: Cancelled<'a>,
    /// Why the orchestrator wants the end, and whether that came before the result.
    cancelled: Option<(CancelReason, bool)>,
    parser: Parser,
    output: Output,
    patience: Patience,
    turn_budget: TurnBudget,
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
            output: Output::default(),
            patience: Patience::default(),
            turn_budget: TurnBudget::default(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<Report, AgentError> {
        let exit = loop {
            match self.next().await {
                Next::Output(chunk) => {
                    let lines = self.output.take(&chunk);
                    self.tell(lines).await;
                }
                Next::Ended(exit) => break exit,
                Next::Cancelled(reason) => self.cancel(reason),
                Next::Overdue => {
                    self.patience.over = true;
                    self.process.stop(Stop::Terminate);
                }
            }
            self.patience.update(self.parser.has_result());
        };
        tracing::debug!(exit = %exit.ending, "agent has ended");
        let rest = self.output.rest();
        self.tell(rest).await;
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

    async fn tell(&mut self, lines: Vec<Printed>) {
        for line in lines {
            let (line, events) = match line {
                Printed::Stderr(text) => {
                    self.emit(Event::Stderr { text }).await;
                    continue;
                }
                Printed::Line(line) => {
                    let events = self.parser.line(&line);
                    (line, events)
                }
                Printed::Cut { line, bytes } => (line, vec![Printed::too_long(bytes)]),
            };
            self.emit(Event::Raw { line }).await;
            for event in events {
                self.emit(event).await;
            }
        }
    }

    /// Hands an event over. The orchestrator may want the end just while it is slow to take one.
    async fn emit(&mut self, event: Event) {
        self.turn_budget.spend(event.weight()).await;
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
            on_purpose: false,
            exit: Some(exit.to_string()),
            leftovers: Leftovers::new(exit.left_behind, exit.survived),
            stderr: self.output.stderr(),
        };
        self.parser.finish(ended).map_err(|error| explained(error, cancelled))
    }
}

impl Patience {
    /// Begins with the result, and anew if another turn follows it.
    fn update(&mut self, has_result: bool) {
        self.until =
            has_result.then(|| self.until.unwrap_or_else(|| Instant::now() + AFTER_RESULT));
    }
}
