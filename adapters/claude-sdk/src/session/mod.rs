//! One session: one process of `claude`, from its start to its end.

mod control_channel;
mod requests;
mod stage;

use std::collections::VecDeque;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use ralph_adapter_common::claude_program::conclude;
use ralph_adapter_common::claude_stream::{ClaudeParser, Message, objects};
use ralph_adapter_common::{Actions, LineParser as _, ProcessEnd, ProcessHandler};
use ralph_orchestrator_contract::{
    AgentError, CancelReason, ErrorClass, Event, EventSink, Iteration, Report, Usd,
};
use ralph_orchestrator_supervisor::{Input, Stop};
use serde_json::Value;
use tokio::time::Instant;

use crate::control::Incoming;
use crate::policy::Policy;
use crate::policy::tools::PathContext;
use control_channel::{ControlChannel, Question};
use requests::PendingPreview;
use stage::{Stage, Turn};

/// How often the agent is asked what it has cost, at most.
const COST_PAUSE: Duration = Duration::from_secs(30);
/// How often the transcript is given a piece of a message that is still being written, at most: the
/// whole blocks follow, but somebody may wait for a sign of life.
const PIECE_PAUSE: Duration = Duration::from_secs(1);

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

/// Handles the process of one session.
pub(crate) struct SdkSession<'a> {
    channel: ControlChannel,
    task: &'a Iteration,
    events: &'a dyn EventSink,
    settings: Settings<'a>,
    parser: ClaudeParser,
    actions: Actions,
    stage: Stage,
    turn: Turn,
    /// Requested of the orchestrator, one after the other.
    pending_previews: VecDeque<PendingPreview<'a>>,
    rejections: u32,
    /// The last preview was good, and no tool was used since.
    accepted: bool,
    /// Calls of tools that were refused.
    denied: Vec<String>,
    /// How the agent broke the protocol.
    protocol_error: Option<String>,
    /// Calls of tools, with their requests' ids, that wait until the context's size is known.
    pending_tool_calls: Vec<(String, Value)>,
    /// When the agent was last asked what it has cost.
    asked_cost: Option<Instant>,
    last_piece: Option<Instant>,
}

impl<'a> SdkSession<'a> {
    pub(crate) fn new(
        input: Input,
        task: &'a Iteration,
        events: &'a dyn EventSink,
        settings: Settings<'a>,
    ) -> Self {
        Self {
            channel: ControlChannel::new(input),
            task,
            events,
            settings,
            parser: ClaudeParser::new(),
            actions: Actions::default(),
            stage: Stage::Starting,
            turn: Turn::default(),
            pending_previews: VecDeque::new(),
            rejections: 0,
            accepted: false,
            denied: Vec::new(),
            protocol_error: None,
            pending_tool_calls: Vec::new(),
            asked_cost: None,
            last_piece: None,
        }
    }

    /// Returns whether this is a piece of a message whose blocks follow as a whole, so soon after another
    /// piece that nobody misses it.
    fn is_frequent_piece(&mut self, value: &Value) -> bool {
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

    fn handle_message(&mut self, message: Message) {
        self.follow_stage(&message);
        let outcome = match &message {
            Message::Result(outcome) => Some(outcome.clone()),
            _ => None,
        };
        let events = self.parser.message(message);
        self.actions.emit_all(events);
        self.check_turn();
        if let Some(outcome) = outcome {
            self.end_turn(&outcome);
        }
    }

    /// Handles an answer to one of our questions.
    fn handle_answer(&mut self, id: &str, answer: Result<Value, String>) {
        let Some(question) = self.channel.take_question(id) else { return };
        match (question, answer) {
            (Question::Initialize, Ok(_)) => self.begin(),
            (Question::Initialize, Err(problem)) => {
                self.fail_protocol(format!("it refuses to begin: {problem:.500}"));
            }
            (Question::ContextUsage, answer) => {
                let window = answer.ok().and_then(|answer| answer.get("maxTokens")?.as_u64());
                let event = window.and_then(|window| self.parser.window(window));
                self.actions.emit_all(event);
                self.check_turn();
                self.release_tool_calls();
            }
            (Question::Usage, Ok(answer)) => {
                let cost = answer.pointer("/session/total_cost_usd").and_then(Value::as_f64);
                let cost = cost.and_then(Usd::from_dollars);
                let event = cost.and_then(|cost| self.parser.cost(cost));
                self.actions.emit_all(event);
            }
            // The meter does without, and an interrupt that fails is noticed by what follows.
            (Question::Usage, Err(_)) | (Question::Interrupt, _) => {}
        }
    }

    /// Asks what the session has cost, unless that was asked just now.
    fn ask_cost(&mut self) {
        let now = Instant::now();
        let recent = self.asked_cost.is_some_and(|last| now.duration_since(last) < COST_PAUSE);
        if !recent && !self.channel.is_pending(Question::Usage) {
            self.asked_cost = Some(now);
            self.channel.ask(Question::Usage);
        }
    }

    fn warn(&mut self, message: impl Into<String>) {
        self.actions.emit(Event::Warning { message: message.into() });
    }

    fn fail_protocol(&mut self, problem: String) {
        self.protocol_error = Some(problem);
        self.actions.stop(Stop::Terminate);
    }

    fn check_stdin(&mut self) {
        if self.channel.stdin_blocked && self.protocol_error.is_none() {
            self.fail_protocol("it does not read its standard input".to_owned());
        }
    }

    fn path_context(&self, input: &Value) -> PathContext {
        let workspace = self.task.workspace.clone();
        let cwd = input.get("cwd").and_then(Value::as_str).map(PathBuf::from);
        let cwd = cwd.unwrap_or_else(|| workspace.clone());
        PathContext { workspace, cwd, home: self.task.env.get("HOME").map(PathBuf::from) }
    }
}

impl ProcessHandler for SdkSession<'_> {
    fn actions(&mut self) -> &mut Actions {
        &mut self.actions
    }

    fn start(&mut self) {
        self.enter(Stage::Starting);
        self.channel.ask(Question::Initialize);
    }

    fn read_line(&mut self, line: String) {
        let objects = objects(&line);
        // Only what comes last can be unreadable.
        let unreadable = objects.contains(&None);
        let warning = unreadable.then(|| self.parser.not_a_message(&line)).flatten();
        if !objects.iter().flatten().any(|value| self.is_frequent_piece(value)) {
            self.actions.emit(Event::Raw { line });
        }
        for value in objects.into_iter().flatten() {
            match Incoming::read(&value) {
                Some(Incoming::Request { id, request }) => self.handle_request(&id, request),
                Some(Incoming::Answer { id, answer }) => self.handle_answer(&id, answer),
                Some(Incoming::Cancel { id }) => {
                    self.pending_previews.retain(|preview| preview.id != id);
                    self.pending_tool_calls.retain(|(pending, _)| *pending != id);
                }
                None => self.handle_message(Message::from_value(value)),
            }
        }
        self.actions.emit_all(warning);
        self.check_stdin();
    }

    /// Waits for the first of the pending previews.
    async fn wait(&mut self) {
        let preview = match self.pending_previews.front_mut() {
            Some(pending) => (&mut pending.preview).await,
            None => pending().await,
        };
        self.answer_preview(preview);
        self.check_stdin();
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Closing { .. } | Stage::Ending { .. })
    }

    fn cancel(&mut self, _reason: CancelReason) {
        self.cancel_stage();
    }

    fn deadline_passed(&mut self) {
        self.expire_stage();
        self.check_stdin();
    }

    fn finish(self, end: ProcessEnd) -> Result<Report, AgentError> {
        let mut account = if self.stage.is_handed_off() {
            self.parser.finish_handed_off()
        } else {
            self.parser.account(&end.exit)
        };
        let report = match &mut account {
            Ok(report) => report,
            Err(error) => &mut error.report,
        };
        for denied in self.denied {
            if !report.denied.contains(&denied) {
                report.denied.push(denied);
            }
        }
        if let (Err(error), Some(problem)) = (&mut account, self.protocol_error) {
            error.class = ErrorClass::Unavailable;
            error.message =
                format!("the agent does not speak its protocol: {problem}; {}", error.message);
        }
        conclude(account, end)
    }
}
