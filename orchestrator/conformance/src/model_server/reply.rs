//! What the model answers.

use std::time::Duration;

use ralph_orchestrator_contract::Tokens;
use serde_json::{Map, Value, json};

/// Further fields of an error.
pub(super) type Details = Map<String, Value>;

/// The error that [`Fault::Error`] is: its type and its text.
pub(super) const OVERLOADED: (&str, &str) = ("overloaded_error", "Overloaded");

/// What is done with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A message of the model.
    Turn(Turn),
    /// An error.
    Error {
        /// The HTTP status.
        status: u16,
        /// Headers beside those of every answer.
        headers: Vec<(String, String)>,
        /// The error's type, such as `rate_limit_error`.
        kind: String,
        /// The error's text.
        message: String,
        /// Further fields of the error, such as `resets_at`.
        details: Map<String, Value>,
    },
    /// A good status, and then an error where the message should be.
    Failed {
        /// The error's type or code, such as `context_length_exceeded`.
        kind: String,
        /// The error's text.
        message: String,
    },
    /// Nothing at all is answered, for as long as the client waits.
    Hang,
    /// The connection ends without an answer.
    Drop,
}

impl Reply {
    /// An error without further headers, with the type that goes with the status.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            500..=599 => "api_error",
            _ => "invalid_request_error",
        };
        Self::Error {
            status,
            headers: Vec::new(),
            kind: kind.to_owned(),
            message: message.to_owned(),
            details: Map::new(),
        }
    }

    /// An error after a good status.
    #[must_use]
    pub fn failed(kind: &str, message: &str) -> Self {
        Self::Failed { kind: kind.to_owned(), message: message.to_owned() }
    }

    /// The same with another type; of no effect on replies without one.
    #[must_use]
    pub fn kind(mut self, word: &str) -> Self {
        if let Self::Error { kind, .. } | Self::Failed { kind, .. } = &mut self {
            word.clone_into(kind);
        }
        self
    }

    /// The same with a further field of the error; of no effect on other replies.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Self::Error { details, .. } = &mut self {
            details.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The same with a header; of no effect on replies that are neither a message nor an error.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Self::Error { headers, .. } | Self::Turn(Turn { headers, .. }) = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

impl From<Turn> for Reply {
    fn from(turn: Turn) -> Self {
        Self::Turn(turn)
    }
}

/// What goes wrong in the middle of a streamed message, after its first piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing more comes, for as long as the client waits.
    Stall,
    /// The connection ends.
    Cut,
    /// An error event comes.
    Error,
}

/// A message of the model.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(super) blocks: Vec<Value>,
    pub(super) stop_reason: String,
    pub(super) usage: Tokens,
    pub(super) fault: Option<Fault>,
    pub(super) pace: Option<Duration>,
    pub(super) headers: Vec<(String, String)>,
}

impl Turn {
    /// A message of one text that ends the turn.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            blocks: vec![json!({"type": "text", "text": text})],
            stop_reason: "end_turn".to_owned(),
            usage: Tokens { input: 100, output: 10, ..Tokens::default() },
            fault: None,
            pace: None,
            headers: Vec::new(),
        }
    }

    /// A message that calls one tool.
    #[must_use]
    pub fn tool(name: &str, input: &Value) -> Self {
        Self { blocks: Vec::new(), ..Self::text("") }.and_tool(name, input)
    }

    /// A message that runs a command by the agent's own tool for that, whatever it is called.
    #[must_use]
    pub fn shell(command: &str) -> Self {
        Self { blocks: Vec::new(), ..Self::text("") }.and_shell(command)
    }

    /// A message that calls one of the orchestrator's own tools, by the name under which the agent offers it.
    #[must_use]
    pub fn own_tool(name: &str, input: &Value) -> Self {
        let mut turn = Self { blocks: Vec::new(), ..Self::text("") };
        turn.blocks.push(json!({"type": "own_tool", "name": name, "input": input}));
        turn.stop_reason = "tool_use".to_owned();
        turn
    }

    /// With a command, run by the agent's own tool for that, at its end.
    #[must_use]
    pub fn and_shell(mut self, command: &str) -> Self {
        self.blocks.push(json!({"type": "shell", "command": command}));
        self.stop_reason = "tool_use".to_owned();
        self
    }

    /// With a tool call at its end.
    #[must_use]
    pub fn and_tool(mut self, name: &str, input: &Value) -> Self {
        self.blocks.push(json!({"type": "tool_use", "name": name, "input": input}));
        self.stop_reason = "tool_use".to_owned();
        self
    }

    /// With reasoning before everything else.
    #[must_use]
    pub fn thinking(mut self, text: &str) -> Self {
        let block = json!({"type": "thinking", "thinking": text, "signature": "c2ln"});
        self.blocks.insert(0, block);
        self
    }

    /// With these figures instead of 100 tokens in and 10 out.
    #[must_use]
    pub fn usage(mut self, usage: Tokens) -> Self {
        self.usage = usage;
        self
    }

    /// With this stop reason instead of `end_turn` or `tool_use`.
    #[must_use]
    pub fn stop_reason(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.stop_reason);
        self
    }

    /// With a fault, if it is streamed.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// With a pause before each event, if it is streamed.
    #[must_use]
    pub fn slow(mut self, pause: Duration) -> Self {
        self.pace = Some(pause);
        self
    }
}
