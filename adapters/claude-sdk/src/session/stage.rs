//! The stages of a session, and what leads from one to the next.

use std::time::Duration;

use ralph_adapter_common::EXIT_GRACE;
use ralph_adapter_common::agent_tools::{MAX_NOTE, RULE};
use ralph_adapter_common::claude_stream::{Block, Message, Outcome, System, bounded};
use ralph_orchestrator_contract::Event;
use ralph_orchestrator_supervisor::Stop;
use serde_json::Value;

use super::SdkSession;
use super::control_channel::Question;

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

/// The stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The agent has not answered the handshake yet.
    Starting,
    /// It works on the task.
    Working,
    /// It was interrupted for its hand-off.
    Interrupting,
    /// It writes its notes; `begun` once it is seen to do so.
    Noting { begun: bool },
    /// The orchestrator wants the end.
    Cancelling,
    /// Its input is closed; it has to exit by itself. `handed_off` if the last turn was about the notes.
    Closing { handed_off: bool },
    /// It is being stopped by signals.
    Ending { handed_off: bool },
}

impl Stage {
    /// Returns whether the last turn was ended by the adapter, or was about something else than the task.
    pub(super) const fn is_handed_off(self) -> bool {
        matches!(self, Self::Closing { handed_off: true } | Self::Ending { handed_off: true })
    }

    /// Returns how long the stage may take.
    const fn timeout(self) -> Option<Duration> {
        match self {
            Self::Starting => Some(START),
            Self::Interrupting => Some(INTERRUPT),
            Self::Noting { .. } => Some(NOTES),
            Self::Cancelling => Some(CANCEL),
            Self::Closing { .. } => Some(EXIT_GRACE),
            Self::Working | Self::Ending { .. } => None,
        }
    }
}

/// The main conversation's present turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The model's message is complete, and calls tools.
    calls_tools: bool,
    /// One of them is the adapter's own: its answer may end the work.
    calls_own: bool,
}

impl Turn {
    pub(super) fn follow(&mut self, message: &Message) {
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
                self.calls_own |= assistant.content.iter().any(ours);
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

impl SdkSession<'_> {
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.actions.set_timeout(stage.timeout());
    }

    /// Sends the task, once the agent has answered the handshake.
    pub(super) fn begin(&mut self) {
        if self.stage == Stage::Starting {
            self.channel.send_prompt(&String::from_utf8_lossy(&self.task.prompt));
            self.enter(Stage::Working);
            // The agent computes it while the model works.
            self.channel.ask(Question::ContextUsage);
        }
    }

    /// Asks for figures and begins the hand-off when it is due; called whenever the turn has advanced.
    pub(super) fn check_turn(&mut self) {
        if self.stage != Stage::Working || !self.turn.calls_tools {
            return;
        }
        self.ask_cost();
        let Some(context) = self.parser.context() else { return };
        let Some((at, share)) = self.settings.handoff_at.zip(context.share()) else { return };
        if share < at || self.turn.calls_own || !self.pending_previews.is_empty() {
            return;
        }
        let window = context.window.unwrap_or_default();
        let message = format!(
            "the context is {:.1} % full ({} of {window} tokens): the session is handed over",
            share * 100.0,
            context.used
        );
        // Only now that the model's message is complete does it count as paid.
        self.channel.ask(Question::Interrupt);
        self.enter(Stage::Interrupting);
        self.warn(message);
    }

    /// Follows turn and stage by a message of the agent.
    pub(super) fn follow_stage(&mut self, message: &Message) {
        self.turn.follow(message);
        let speaks = matches!(message, Message::System(System::Init(_)) | Message::Assistant(_));
        match (self.stage, message) {
            (Stage::Noting { begun: false }, _) if speaks => {
                self.stage = Stage::Noting { begun: true };
            }
            // Another turn of its own accord, and its end.
            (Stage::Closing { .. }, Message::System(System::Init(_))) => {
                self.actions.set_timeout(None);
            }
            (Stage::Closing { .. }, Message::Result(_)) => self.enter(self.stage),
            _ => {}
        }
        if matches!(message, Message::System(System::Fallback(_))) {
            self.channel.ask(Question::ContextUsage);
        }
    }

    /// Handles the end of a turn.
    pub(super) fn end_turn(&mut self, outcome: &Outcome) {
        match self.stage {
            Stage::Interrupting if outcome.aborted() => {
                self.enter(Stage::Noting { begun: false });
                self.channel.send_prompt(HANDOFF);
            }
            Stage::Noting { begun: false } => {}
            Stage::Noting { begun: true } => self.keep_notes(outcome),
            Stage::Starting | Stage::Working | Stage::Interrupting => {
                self.close(false);
            }
            Stage::Cancelling => self.channel.close(),
            // Another result after the last one.
            Stage::Closing { .. } | Stage::Ending { .. } => {}
        }
    }

    fn keep_notes(&mut self, outcome: &Outcome) {
        let text = outcome.result.clone().or_else(|| self.parser.last_text());
        let text = text.filter(|text| !outcome.failed() && !text.trim().is_empty());
        self.close(true);
        match text {
            Some(text) => self.actions.emit(Event::Note { text: bounded(&text, MAX_NOTE) }),
            None => self.warn("the agent left no notes for the hand-off"),
        }
    }

    /// Keeps a call of a tool waiting if a hand-off may be due, which would cut off a tool that has begun;
    /// returns whether it does.
    pub(super) fn hold_tool_call(&mut self, id: &str, hook: &Value) -> bool {
        let unknown = self.parser.context().is_none_or(|context| context.window.is_none());
        let hold = self.stage == Stage::Working
            && self.settings.handoff_at.is_some()
            && unknown
            && self.channel.is_pending(Question::ContextUsage);
        if hold {
            self.pending_tool_calls.push((id.to_owned(), hook.clone()));
            if self.actions.deadline().is_none() {
                self.actions.set_timeout(Some(HOLD));
            }
        }
        hold
    }

    /// Lets the calls of tools continue that were kept waiting.
    pub(super) fn release_tool_calls(&mut self) {
        if self.stage == Stage::Working {
            self.actions.set_timeout(None);
        }
        for (id, hook) in std::mem::take(&mut self.pending_tool_calls) {
            self.before_tool(&id, &hook);
        }
    }

    fn close(&mut self, handed_off: bool) {
        self.channel.close();
        self.enter(Stage::Closing { handed_off });
    }

    fn end(&mut self, how: Stop, handed_off: bool) {
        self.enter(Stage::Ending { handed_off });
        self.actions.stop(how);
    }

    /// Ends the session because the orchestrator asked for it.
    pub(super) fn cancel_stage(&mut self) {
        self.pending_previews.clear();
        match self.stage {
            Stage::Starting => self.end(Stop::Terminate, false),
            // An interrupted turn still tells what it has cost, and ends its tools itself.
            Stage::Working | Stage::Interrupting | Stage::Noting { .. } | Stage::Cancelling => {
                self.channel.ask(Question::Interrupt);
                self.enter(Stage::Cancelling);
            }
            Stage::Closing { handed_off } | Stage::Ending { handed_off } => {
                self.end(Stop::Terminate, handed_off);
            }
        }
    }

    /// Handles that the stage took too long.
    pub(super) fn expire_stage(&mut self) {
        match self.stage {
            Stage::Starting => {
                let seconds = START.as_secs();
                self.protocol_error =
                    Some(format!("it did not answer the handshake within {seconds} s"));
                self.end(Stop::Terminate, false);
            }
            Stage::Interrupting | Stage::Noting { .. } => {
                self.end(Stop::Gracefully, true);
                self.warn("the agent left no notes for the hand-off in time");
            }
            Stage::Cancelling => self.end(Stop::Terminate, false),
            Stage::Closing { handed_off } => self.end(Stop::Terminate, handed_off),
            Stage::Working => self.release_tool_calls(),
            Stage::Ending { .. } => {}
        }
    }
}
