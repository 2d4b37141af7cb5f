//! What the host says.

use ralph_orchestrator_contract::{BuildContext, CancelReason, Judgement};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::code::{Frame, body};
use crate::method::Method;
use crate::plugin::{ItemKind, LogLevel};

/// A frame from the host to a plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum HostFrame {
    /// The first frame.
    Hello(HostHello),
    /// Builds an instance.
    Open(Open),
    /// Asks an instance for something.
    Call(Call),
    /// A call has to come to an end.
    Cancel(Cancel),
    /// The answer to `judge`.
    Judgement(JudgementGiven),
    /// More events may be sent.
    Credit(Credit),
    /// Asks for a `pong`.
    Ping(Ping),
    /// The last frame.
    Close(Close),
}

impl Frame for HostFrame {
    fn read(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>> {
        Some(match name {
            "hello" => body(bytes, Self::Hello),
            "open" => body(bytes, Self::Open),
            "call" => body(bytes, Self::Call),
            "cancel" => body(bytes, Self::Cancel),
            "judgement" => body(bytes, Self::Judgement),
            "credit" => body(bytes, Self::Credit),
            "ping" => body(bytes, Self::Ping),
            "close" => body(bytes, Self::Close),
            _ => return None,
        })
    }
}

/// The host's first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// The version of the protocol, [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The host's name and version, for people.
    #[serde(default)]
    pub host: String,
    /// What the host can do, see [`feature`](crate::feature).
    #[serde(default)]
    pub features: Vec<String>,
    /// Events that a call may send before it waits for credit, if `credit` is agreed on.
    #[serde(default = "window")]
    pub window: u32,
    /// The least severe messages of a log that are wanted.
    #[serde(default)]
    pub log: LogLevel,
}

const fn window() -> u32 {
    crate::WINDOW
}

/// Builds an instance; answered by `opened` or `refused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// The host's number for it, from 1.
    pub instance: u64,
    /// What it is.
    pub kind: ItemKind,
    /// Which one, if the plugin provides several of that kind.
    #[serde(default)]
    pub name: Option<String>,
    /// Its table in the configuration.
    pub config: Value,
    /// Where the run happens.
    pub context: BuildContext,
}

/// Asks an instance for something; answered by exactly one of `done`, `failed` and `panicked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The host's number for it, from 1.
    pub call: u64,
    /// Whom it asks.
    pub instance: u64,
    /// For what.
    #[serde(flatten)]
    pub method: Method,
}

/// A call has to come to an end: it is still answered, usually by `failed` with the class `cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Which one.
    pub call: u64,
    /// Why.
    pub reason: CancelReason,
    /// After so many milliseconds the host waits for it no longer.
    pub grace_ms: u64,
}

/// The answer to `judge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgementGiven {
    /// The call that asked.
    pub call: u64,
    /// The plugin's number for the question.
    pub ask: u64,
    /// What would become of the work.
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// More events may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// By which call.
    pub call: u64,
    /// How many more.
    pub events: u32,
}

/// Asks for a `pong` with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// The number.
    pub n: u64,
}

/// The conversation is over: the plugin comes to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {}
