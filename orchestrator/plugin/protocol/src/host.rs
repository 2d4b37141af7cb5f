//! Frames that the host sends.

use ralph_orchestrator_contract::{BuildContext, CancelReason, Guidance, ValidationPreview};
use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::codec::{Frame, body};
use crate::log_line::LogLevel;
use crate::method::Method;
use crate::plugin::ItemKind;

/// A frame from the host to a plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum HostFrame {
    /// The first frame.
    Hello(HostHello),
    /// Builds an instance.
    Open(Open),
    /// Calls a method of an instance.
    Call(Call),
    /// Cancels a call.
    Cancel(Cancel),
    /// Answers `preview`.
    PreviewResult(PreviewResult),
    /// Answers `write_check`.
    WriteCheckResult(WriteCheckResult),
    /// Answers `take_guidance`.
    GuidanceResult(GuidanceResult),
    /// Allows more events.
    Credit(Credit),
    /// Requests a `pong`.
    Ping(Ping),
    /// The last frame.
    Close(Close),
}

impl Frame for HostFrame {
    fn parse(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>> {
        Some(match name {
            "hello" => body(bytes, Self::Hello),
            "open" => body(bytes, Self::Open),
            "call" => body(bytes, Self::Call),
            "cancel" => body(bytes, Self::Cancel),
            "preview_result" => body(bytes, Self::PreviewResult),
            "write_check_result" => body(bytes, Self::WriteCheckResult),
            "guidance_result" => body(bytes, Self::GuidanceResult),
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
    /// The host's name and version, for display.
    #[serde(default)]
    pub host: String,
    /// The features of the host, see [`feature`](crate::feature).
    #[serde(default)]
    pub features: Vec<String>,
    /// The number of events that a call may send before it waits for credit, if `credit` is negotiated.
    #[serde(default = "window")]
    pub window: u32,
    /// The least severe log messages that the host wants.
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
    /// Its kind.
    pub kind: ItemKind,
    /// The item's name, if the plugin provides several of that kind.
    #[serde(default)]
    pub name: Option<String>,
    /// Its table in the configuration.
    pub config: Value,
    /// The directories of the run.
    pub context: BuildContext,
}

/// Calls a method of an instance; answered by exactly one of `done`, `failed` and `panicked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The host's number for it, from 1.
    pub call: u64,
    /// The instance called.
    pub instance: u64,
    /// The method and its parameters.
    #[serde(flatten)]
    pub method: Method,
}

/// Cancels a call. It is still answered, usually by `failed` with the class `cancelled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// The call.
    pub call: u64,
    /// Why.
    #[serde(deserialize_with = "read_reason")]
    pub reason: CancelReason,
    /// The milliseconds after which the host no longer waits for the call.
    pub grace_ms: u64,
}

impl Cancel {
    /// Returns the same for a reason that all plugins know: those that were built before there was a hand-off, or a
    /// pause, do not know its word.
    #[must_use]
    pub const fn with_old_reason(self) -> Self {
        let reason = match self.reason {
            CancelReason::Handoff => CancelReason::Timeout,
            CancelReason::Pause => CancelReason::Signal,
            CancelReason::Timeout
            | CancelReason::Idle
            | CancelReason::MaxRuntime
            | CancelReason::MaxCost
            | CancelReason::MaxTokens
            | CancelReason::Signal => self.reason,
        };
        Self { reason, ..self }
    }
}

/// Returns the reason of a `cancel`; one of a newer host is a signal, which needs no other answer.
fn read_reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CancelReason, D::Error> {
    let word = String::deserialize(deserializer)?;
    let word: StrDeserializer<'_, D::Error> = word.as_str().into_deserializer();
    let known = CancelReason::deserialize(word);
    Ok(known.unwrap_or(CancelReason::Signal))
}

/// Answers `preview`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewResult {
    /// The call that requested the preview.
    pub call: u64,
    /// The plugin's number of the request.
    pub request: u64,
    /// The preview.
    #[serde(flatten)]
    pub preview: ValidationPreview,
}

/// Answers `write_check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteCheckResult {
    /// The call that sent the request.
    pub call: u64,
    /// The plugin's number of the request.
    pub request: u64,
    /// Whether the agent's own tools must not write the path.
    pub refused: bool,
}

/// Answers `take_guidance`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuidanceResult {
    /// The call that sent the request.
    pub call: u64,
    /// The plugin's number of the request.
    pub request: u64,
    /// What people sent since it was taken last.
    #[serde(default)]
    pub guidance: Vec<Guidance>,
}

/// Allows more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// The call.
    pub call: u64,
    /// The number of additional events.
    pub events: u32,
}

/// Requests a `pong` with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// The number.
    pub n: u64,
}

/// Ends the session; the plugin exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {}
