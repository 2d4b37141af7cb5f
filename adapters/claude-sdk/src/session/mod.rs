//! One session: one process of `claude`, from its start to its end.

mod link;
mod requests;
mod stage;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use ralph_adapter_common::claude_program::explained;
use ralph_adapter_common::claude_stream::{Ended, Message, Parser, objects};
use ralph_adapter_common::{Printed, Printout as Output};
use ralph_orchestrator_contract::{
    AgentError, CancelReason, ErrorClass, Event, EventSink, Iteration, Judgement, Leftovers, Report,
};
use ralph_orchestrator_supervisor::{Exit, Input, Process, Step, Stop, TurnBudget};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::control::Incoming;
use crate::policy::{Place, Policy};
use link::{Link, Question};
use requests::Judging;
use stage::{Stage, Turn};

/// How often the agent is asked what it has cost, at most.
const COST_PAUSE: Duration = Duration::from_secs(30);
/// How often the transcript is given a piece of a message that is still being written, at most: the
/// whole blocks follow, but somebody may wait for a sign of life.
const PIECE_PAUSE: Duration = Duration::from_secs(1);

type Cancelled<'a> = Pin<Box<dyn Future<Output = CancelReason> + Send + 'a>>;

/// What is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) policy: &'a Policy,
    /// Whatever is not refused is allowed.
    pub(crate) bypass: bool,
    /// The share of the context at which the session is handed off.
    pub(crate) handoff_at: Option<f64>,
    /// How many claims are rejected in the session at most.
    pub(crate) max_rejections: u32,
}

pub(crate) struct Session<'a> {
    process: Process,
    link: Link,
    task: &'a Iteration,
    events: &'a dyn EventSink,
    settings: Settings<'a>,
    signal: Cancelled<'a>,
    /// Why the orchestrator wants the end, and whether that came before the result.
    cancelled: Option<(CancelReason, bool)>,
    parser: Parser,
    output: Output,
    stage: Stage,
    /// When the stage has to be over.
    until: Option<Instant>,
    turn: Turn,
    /// Judgements that were asked for, one after the other.
    judging: VecDeque<Judging<'a>>,
    rejections: u32,
    /// The last judgement was good, and no tool was used since.
    accepted: bool,
    /// What was refused.
    denied: Vec<String>,
    /// Why it cannot be spoken with.
    mute: Option<String>,
    /// Calls of tools, with their requests' ids, that wait until the context's size is known.
    held: Vec<(String, Value)>,
    /// When it was last asked what it has cost.
    asked_cost: Option<Instant>,
    last_piece: Option<Instant>,
    turn_budget: TurnBudget,
}

enum Next {
    Did(Step),
    Cancelled(CancelReason),
    Judged(Judgement),
    Overdue,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        process: Process,
        input: Input,
        task: &'a Iteration,
        events: &'a dyn EventSink,
        settings: Settings<'a>,
    ) -> Self {
        Self {
            process,
            link: Link::new(input),
            task,
            events,
            settings,
            signal: events.cancelled(),
            cancelled: None,
            parser: Parser::new(),
            output: Output::default(),
            stage: Stage::Starting,
            until: None,
            turn: Turn::default(),
            judging: VecDeque::new(),
            rejections: 0,
            accepted: false,
            denied: Vec::new(),
            mute: None,
            held: Vec::new(),
            asked_cost: None,
            last_piece: None,
            turn_budget: TurnBudget::default(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<Report, AgentError> {
        self.enter(Stage::Starting);
        self.link.ask(Question::Initialize);
        let exit = loop {
            match self.next().await {
                Next::Did(Step::Printed(chunk)) => {
                    let lines = self.output.take(&chunk);
                    self.read(lines).await;
                }
                Next::Did(Step::Gone(exit)) => break exit,
                Next::Cancelled(reason) => self.cancel(reason),
                Next::Judged(judgement) => self.judged(judgement),
                Next::Overdue => self.overdue().await,
            }
            if self.link.deaf && self.mute.is_none() {
                self.mute = Some("it does not read what it is told".to_owned());
                self.process.stop(Stop::Terminate);
            }
        };
        let rest = self.output.rest();
        self.read(rest).await;
        self.finish(exit)
    }

    async fn next(&mut self) -> Next {
        let judging = async {
            match self.judging.front_mut() {
                Some(judging) => (&mut judging.judgement).await,
                None => pending().await,
            }
        };
        let until = self.until;
        tokio::select! {
            biased;
            reason = &mut self.signal, if self.cancelled.is_none() => Next::Cancelled(reason),
            step = self.process.step() => Next::Did(step),
            judgement = judging => Next::Judged(judgement),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                Next::Overdue
            }
        }
    }

    async fn read(&mut self, lines: Vec<Printed>) {
        for line in lines {
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
        let objects = objects(&line);
        if !objects.iter().flatten().any(|value| self.is_mere_piece(value)) {
            self.emit(Event::Raw { line: line.clone() }).await;
        }
        for value in objects {
            let Some(value) = value else {
                let events = self.parser.not_a_message(&line);
                self.emit_all(events).await;
                continue;
            };
            match Incoming::read(&value) {
                Some(Incoming::Request { id, request }) => self.requested(&id, request).await,
                Some(Incoming::Answer { id, answer }) => self.answered(&id, answer).await,
                Some(Incoming::Cancel { id }) => {
                    self.judging.retain(|judging| judging.id != id);
                    self.held.retain(|(held, _)| *held != id);
                }
                None => self.message(Message::from_value(value)).await,
            }
        }
    }

    /// A piece of a message whose blocks follow as a whole, so soon after another that nobody misses
    /// it.
    fn is_mere_piece(&mut self, value: &Value) -> bool {
        let event = value.get("event").and_then(|event| event.get("type"));
        if event.and_then(Value::as_str) != Some("content_block_delta") {
            return false;
        }
        let now = Instant::now();
        if self.last_piece.is_some_and(|last| now.duration_since(last) < PIECE_PAUSE) {
            return true;
        }
        self.last_piece = Some(now);
        false
    }

    async fn message(&mut self, message: Message) {
        self.saw(&message);
        let outcome = match &message {
            Message::Result(outcome) => Some(outcome.clone()),
            _ => None,
        };
        let events = self.parser.message(message);
        self.emit_all(events).await;
        self.turn_goes_on().await;
        if let Some(outcome) = outcome {
            self.turn_ended(&outcome).await;
        }
    }

    /// An answer to what we asked.
    async fn answered(&mut self, id: &str, answer: Result<Value, String>) {
        let Some(question) = self.link.answered(id) else { return };
        match (question, answer) {
            (Question::Initialize, Ok(_)) => self.begin(),
            (Question::Initialize, Err(problem)) => {
                self.mute = Some(format!("it refuses to begin: {problem:.500}"));
                self.process.stop(Stop::Terminate);
            }
            (Question::ContextUsage, answer) => {
                let window = answer.ok().and_then(|answer| answer.get("maxTokens")?.as_u64());
                let event = window.and_then(|window| self.parser.window(window));
                self.emit_all(event).await;
                self.turn_goes_on().await;
                self.release();
            }
            (Question::Usage, Ok(answer)) => {
                let cost = answer.pointer("/session/total_cost_usd").and_then(Value::as_f64);
                let cost = cost.and_then(ralph_orchestrator_contract::Usd::from_dollars);
                let event = cost.and_then(|cost| self.parser.cost(cost));
                self.emit_all(event).await;
            }
            // The meter does without, and an interrupt that fails is noticed by what follows.
            (Question::Usage, Err(_)) | (Question::Interrupt, _) => {}
        }
    }

    /// Asks what it has cost, unless that was asked just now.
    fn ask_cost(&mut self) {
        let now = Instant::now();
        let soon = self.asked_cost.is_some_and(|last| now.duration_since(last) < COST_PAUSE);
        if !soon && !self.link.waits_for(Question::Usage) {
            self.asked_cost = Some(now);
            self.link.ask(Question::Usage);
        }
    }

    async fn warn(&mut self, message: String) {
        self.emit(Event::Warning { message }).await;
    }

    async fn emit_all(&mut self, events: impl IntoIterator<Item = Event>) {
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
            reason = &mut self.signal, if self.cancelled.is_none() => reason,
        };
        self.cancel(reason);
        emit.await;
    }

    fn place(&self, input: &Value) -> Place {
        let workspace = self.task.workspace.clone();
        let cwd = input.get("cwd").and_then(Value::as_str).map(PathBuf::from);
        let cwd = cwd.unwrap_or_else(|| workspace.clone());
        Place { workspace, cwd, home: self.task.env.get("HOME").map(PathBuf::from) }
    }

    fn finish(self, exit: Exit) -> Result<Report, AgentError> {
        let cancelled = self.cancelled.filter(|(_, early)| *early).map(|(reason, _)| reason);
        let ended = Ended {
            cancelled: cancelled.is_some(),
            on_purpose: self.stage.on_purpose(),
            exit: Some(exit.to_string()),
            leftovers: Leftovers::new(exit.left_behind, exit.survived),
            stderr: self.output.stderr(),
        };
        let mut result = self.parser.finish(ended);
        let report = match &mut result {
            Ok(report) => report,
            Err(error) => &mut error.report,
        };
        for denied in self.denied {
            if !report.denied.contains(&denied) {
                report.denied.push(denied);
            }
        }
        match (result, self.mute) {
            (Err(error), Some(mute)) if cancelled.is_none() => {
                let message =
                    format!("the agent does not speak its protocol: {mute}; {}", error.message);
                Err(AgentError::new(ErrorClass::Unavailable, message).with_report(*error.report))
            }
            (result, _) => result.map_err(|error| explained(error, cancelled)),
        }
    }
}
