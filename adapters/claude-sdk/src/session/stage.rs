//! From the first word to the last: what the session is at, and what follows.

use std::time::Duration;

use ralph_adapter_common::claude_program::AFTER_RESULT;
use ralph_adapter_common::claude_stream::{Block, Message, Outcome, System, bounded};
use ralph_orchestrator_contract::{CancelReason, Event};
use ralph_orchestrator_supervisor::Stop;
use serde_json::Value;
use tokio::time::Instant;

use super::Session;
use super::link::Question;
use super::requests::MAX_NOTE;
use crate::tools::RULE;

/// How long the agent may take to say that it is there.
const START: Duration = Duration::from_secs(60);
/// How long it may take to come to rest when it was interrupted.
const INTERRUPT: Duration = Duration::from_secs(10);
/// How long it may take to end after an interrupt, before signals follow.
const CANCEL: Duration = Duration::from_secs(5);
/// How long a call of a tool waits for the context's size.
const HOLD: Duration = Duration::from_secs(10);
/// How long it may take to write its notes.
const NOTES: Duration = Duration::from_secs(120);
/// What it is told when its context is full.
const HANDOFF: &str = "Your context is nearly full, so this session ends here; the work goes on in a \
    fresh one that knows nothing of this one but the task and your notes. Without using any tool, write \
    these notes as your answer, in at most 500 words: what is done and where, what is left and what to \
    do next, what was tried and failed, and commands and facts that were hard to find out. Claim \
    nothing.";

/// What the session is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not said yet that it is there.
    Starting,
    /// It works on the task.
    Working,
    /// It was interrupted for its hand-off.
    Interrupting,
    /// It writes its notes; `begun` once it is seen to do so.
    Noting { begun: bool },
    /// The orchestrator wants the end.
    Cancelling,
    /// All is said; it has to end by itself. `handed_off` if the last turn were the notes.
    Closing { handed_off: bool },
    /// It was told to end by signals.
    Ending { handed_off: bool },
}

impl Stage {
    /// The last turn was ended by the adapter, or was about something else than the task.
    pub(super) const fn on_purpose(self) -> bool {
        matches!(self, Self::Closing { handed_off: true } | Self::Ending { handed_off: true })
    }

    const fn patience(self) -> Option<Duration> {
        match self {
            Self::Starting => Some(START),
            Self::Interrupting => Some(INTERRUPT),
            Self::Noting { .. } => Some(NOTES),
            Self::Cancelling => Some(CANCEL),
            Self::Closing { .. } => Some(AFTER_RESULT),
            Self::Working | Self::Ending { .. } => None,
        }
    }
}

/// What is known of the main conversation's present turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The model's message is complete, and calls tools.
    calls_tools: bool,
    /// One of them is ours: its answer may end the work.
    calls_ours: bool,
}

impl Turn {
    pub(super) fn see(&mut self, message: &Message) {
        match message {
            Message::Stream { event, parent: None } => {
                match event.get("type").and_then(Value::as_str).unwrap_or_default() {
                    "message_start" => *self = Self::default(),
                    "message_delta" => {
                        let reason = event.pointer("/delta/stop_reason").and_then(Value::as_str);
                        self.calls_tools |= reason == Some("tool_use");
                    }
                    _ => {}
                }
            }
            Message::Assistant(assistant) if assistant.parent.is_none() => {
                let ours = |block: &Block| matches!(block, Block::ToolUse { name, .. } if name.starts_with(RULE));
                self.calls_ours |= assistant.content.iter().any(ours);
            }
            // Who prints no stream events still answers its tools.
            Message::User(user) if user.parent.is_none() => {
                let result = |block: &Block| matches!(block, Block::ToolResult { .. });
                self.calls_tools |= user.content.iter().any(result);
            }
            Message::Result(_) => *self = Self::default(),
            _ => {}
        }
    }
}

impl Session<'_> {
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.until = stage.patience().map(|patience| Instant::now() + patience);
    }

    /// The agent is there.
    pub(super) fn begin(&mut self) {
        if self.stage == Stage::Starting {
            self.link.prompt(&String::from_utf8_lossy(&self.task.prompt));
            self.enter(Stage::Working);
            // It reckons while the model thinks.
            self.link.ask(Question::ContextUsage);
        }
    }

    /// Something new is known of the turn: the meters are asked for, and it may be time to hand over.
    pub(super) async fn turn_goes_on(&mut self) {
        if self.stage != Stage::Working || !self.turn.calls_tools {
            return;
        }
        self.ask_cost();
        let Some(context) = self.parser.context() else { return };
        let Some((at, share)) = self.settings.handoff_at.zip(context.share()) else { return };
        if share < at || self.turn.calls_ours || !self.judging.is_empty() {
            return;
        }
        let window = context.window.unwrap_or_default();
        let message = format!(
            "the context is {:.1} % full ({} of {window} tokens): the session is handed over",
            share * 100.0,
            context.used
        );
        // Only now that the model's message is complete does it count as paid.
        self.link.ask(Question::Interrupt);
        self.enter(Stage::Interrupting);
        self.warn(message).await;
    }

    /// A message of the agent's came.
    pub(super) fn saw(&mut self, message: &Message) {
        self.turn.see(message);
        let speaks = matches!(message, Message::System(System::Init(_)) | Message::Assistant(_));
        match (self.stage, message) {
            (Stage::Noting { begun: false }, _) if speaks => {
                self.stage = Stage::Noting { begun: true };
            }
            // Another turn of its own accord, and its end.
            (Stage::Closing { .. }, Message::System(System::Init(_))) => self.until = None,
            (Stage::Closing { .. }, Message::Result(_)) => self.enter(self.stage),
            _ => {}
        }
        if matches!(message, Message::System(System::Fallback(_))) {
            self.link.ask(Question::ContextUsage);
        }
    }

    /// A turn has come to its end.
    pub(super) async fn turn_ended(&mut self, outcome: &Outcome) {
        match self.stage {
            Stage::Interrupting if outcome.aborted() => {
                self.enter(Stage::Noting { begun: false });
                self.link.prompt(HANDOFF);
            }
            Stage::Noting { begun: false } => {}
            Stage::Noting { begun: true } => {
                self.noted(outcome).await;
            }
            Stage::Starting | Stage::Working | Stage::Interrupting => {
                self.close(false);
            }
            Stage::Cancelling => self.link.close(),
            // Another result after the last one.
            Stage::Closing { .. } | Stage::Ending { .. } => {}
        }
    }
    async fn noted(&mut self, outcome: &Outcome) {
        let text = outcome.result.clone().or_else(|| self.parser.last_text());
        let text = text.filter(|text| !outcome.failed() && !text.trim().is_empty());
        self.close(true);
        match text {
            Some(text) => self.emit(Event::Note { text: bounded(&text, MAX_NOTE) }).await,
            None => self.warn("the agent left no notes for the hand-off".to_owned()).await,
        }
    }

    /// Whether a call of a tool has to wait: a hand-off may be due, and a tool that has begun would
    /// be cut off by it.
    pub(super) fn holds(&mut self, id: &str, hook: &Value) -> bool {
        let unknown = self.parser.context().is_none_or(|context| context.window.is_none());
        let hold = self.stage == Stage::Working
            && self.settings.handoff_at.is_some()
            && unknown
            && self.link.waits_for(Question::ContextUsage);
        if hold {
            self.held.push((id.to_owned(), hook.clone()));
            self.until.get_or_insert_with(|| Instant::now() + HOLD);
        }
        hold
    }

    /// Lets the calls go on that were held.
    pub(super) fn release(&mut self) {
        if self.stage == Stage::Working {
            self.until = None;
        }
        for (id, hook) in std::mem::take(&mut self.held) {
            self.before_tool(&id, &hook);
        }
    }

    fn close(&mut self, handed_off: bool) {
        self.link.close();
        self.enter(Stage::Closing { handed_off });
    }

    fn end(&mut self, how: Stop, handed_off: bool) {
        self.enter(Stage::Ending { handed_off });
        self.process.stop(how);
    }

    pub(super) fn cancel(&mut self, reason: CancelReason) {
        let closing = matches!(self.stage, Stage::Closing { .. } | Stage::Ending { .. });
        self.cancelled = Some((reason, !closing));
        self.judging.clear();
        match self.stage {
            Stage::Starting => self.end(Stop::Terminate, false),
            // An interrupted turn still tells what it has cost, and ends its tools itself.
            Stage::Working | Stage::Interrupting | Stage::Noting { .. } | Stage::Cancelling => {
                self.link.ask(Question::Interrupt);
                self.enter(Stage::Cancelling);
            }
            Stage::Closing { handed_off } | Stage::Ending { handed_off } => {
                self.end(Stop::Terminate, handed_off);
            }
        }
    }

    /// The stage took too long.
    pub(super) async fn overdue(&mut self) {
        match self.stage {
            Stage::Starting => {
                let seconds = START.as_secs();
                self.mute = Some(format!("it did not say within {seconds} s that it is there"));
                self.end(Stop::Terminate, false);
            }
            Stage::Interrupting | Stage::Noting { .. } => {
                self.end(Stop::Gracefully, true);
                self.warn("the agent left no notes for the hand-off in time".to_owned()).await;
            }
            Stage::Cancelling => self.end(Stop::Terminate, false),
            Stage::Closing { handed_off } => self.end(Stop::Terminate, handed_off),
            Stage::Working => self.release(),
            Stage::Ending { .. } => self.until = None,
        }
    }
}
