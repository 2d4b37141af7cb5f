//! What a plugin says.

use std::path::PathBuf;

use ralph_orchestrator_contract::{
    AgentError, BuildError, Description, ErrorClass, Event, Report, ValidatorDescription,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::code::{Frame, body};
use crate::method::Answer;

/// A frame from a plugin to the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum PluginFrame {
    /// The first frame.
    Hello(PluginHello),
    /// An instance was built.
    Opened(Opened),
    /// An instance could not be built.
    Refused(Refused),
    /// Something that happened inside a call.
    Event(EventSent),
    /// Asks what would become of the work.
    Judge(Judge),
    /// The end of a call: it was done.
    Done(Done),
    /// The end of a call: it failed.
    Failed(Failed),
    /// The end of a call: the plugin's code panicked.
    Panicked(Panicked),
    /// A message of the plugin's log.
    Log(LogLine),
    /// The answer to `ping`.
    Pong(Pong),
}

impl Frame for PluginFrame {
    fn read(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>> {
        Some(match name {
            "hello" => body(bytes, Self::Hello),
            "opened" => body(bytes, Self::Opened),
            "refused" => body(bytes, Self::Refused),
            "event" => body(bytes, Self::Event),
            "judge" => body(bytes, Self::Judge),
            "done" => body(bytes, Self::Done),
            "failed" => body(bytes, Self::Failed),
            "panicked" => body(bytes, Self::Panicked),
            "log" => body(bytes, Self::Log),
            "pong" => body(bytes, Self::Pong),
            _ => return None,
        })
    }
}

/// What a plugin can provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// For `[agent] adapter`.
    Agent,
    /// For `[completion] detectors`.
    Detector,
    /// For `[[validator]] kind`.
    Validator,
    /// Something of a newer version.
    #[serde(other)]
    Unknown,
}

impl ItemKind {
    /// For people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Detector => "detector",
            Self::Validator => "validator",
            Self::Unknown => "something unknown",
        }
    }
}

/// An item: its kind and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// Its name, unique among those of its kind.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub summary: String,
}

/// The plugin's first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginHello {
    /// The version of the protocol, [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The plugin's name, for people.
    pub name: String,
    /// Its version, for people.
    #[serde(default)]
    pub version: String,
    /// What it was made with, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    /// What the plugin can do, see [`feature`](crate::feature).
    #[serde(default)]
    pub features: Vec<String>,
    /// What it provides.
    pub provides: Vec<Item>,
}

/// An instance was built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Which one.
    pub instance: u64,
    /// What it says of itself, under the key that is its kind.
    #[serde(flatten)]
    pub provided: Provided,
}

/// What an instance says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provided {
    /// An agent.
    Agent(Description),
    /// A detector.
    Detector(DetectorDescription),
    /// A validator.
    Validator(ValidatorOpened),
}

impl Provided {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> ItemKind {
        match self {
            Self::Agent(_) => ItemKind::Agent,
            Self::Detector(_) => ItemKind::Detector,
            Self::Validator(_) => ItemKind::Validator,
        }
    }
}

/// What a detector says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DetectorDescription {
    /// One or two sentences for the agent: how to claim completion.
    pub instructions: String,
    /// Texts of which at least one stands in everything that says how to claim completion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<String>,
    /// It has to see every event of the agent.
    pub observes: bool,
    /// There is something to take out of the prompt.
    pub strips: bool,
}

/// What a validator says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorOpened {
    /// Its demands.
    pub description: ValidatorDescription,
    /// Folders that hold evidence: absolute.
    #[serde(default)]
    pub evidence_dirs: Vec<PathBuf>,
    /// Globs, relative to the workspace, of what must be as it was when the run began.
    #[serde(default)]
    pub protects: Vec<String>,
    /// Any change that it makes to the workspace is its error.
    #[serde(default)]
    pub read_only: bool,
    /// It runs something, so that its verdict rests on more than what the agent wrote.
    #[serde(default = "yes")]
    pub runs_check: bool,
    /// How often in a row it has to accept, at least 1.
    #[serde(default = "one")]
    pub passes_required: u32,
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

/// An instance could not be built: the mistake in its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Which one.
    pub instance: u64,
    /// The keys that lead to the mistake, within the table.
    #[serde(default)]
    pub key: Vec<String>,
    /// The mistake is this key's name, not its value.
    #[serde(default)]
    pub unknown_key: Option<String>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl Refused {
    /// From the mistake.
    #[must_use]
    pub fn new(instance: u64, error: BuildError) -> Self {
        let BuildError { key, unknown_key, message } = error;
        Self { instance, key, unknown_key, message }
    }
}

impl From<Refused> for BuildError {
    fn from(refused: Refused) -> Self {
        let Refused { key, unknown_key, message, .. } = refused;
        Self { key, unknown_key, message }
    }
}

/// Something that happened inside a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventSent {
    /// In which one.
    pub call: u64,
    /// What.
    pub event: Event,
}

/// Asks what would become of the work if the agent ended now; answered by `judgement`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judge {
    /// The call that asks.
    pub call: u64,
    /// The plugin's number for the question.
    pub ask: u64,
    /// What the agent's last message would be.
    #[serde(default)]
    pub final_text: Option<String>,
}

/// The end of a call: it was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Which one.
    pub call: u64,
    /// What came of it, under the key that belongs to its method.
    #[serde(flatten)]
    pub answer: Answer,
}

/// The end of a call: it failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Which one.
    pub call: u64,
    /// What kind of failure; `class`, and for some `until_ms`.
    #[serde(flatten)]
    pub class: ErrorClass,
    /// For people: what happened and, if known, what to do.
    pub message: String,
    /// Usage and what else was learned before the failure.
    #[serde(default)]
    pub report: Box<Report>,
}

impl Failed {
    /// From the error.
    #[must_use]
    pub fn new(call: u64, error: AgentError) -> Self {
        let AgentError { class, message, report } = error;
        Self { call, class, message, report }
    }
}

impl From<Failed> for AgentError {
    fn from(failed: Failed) -> Self {
        let Failed { class, message, report, .. } = failed;
        Self { class, message, report }
    }
}

/// The end of a call: the plugin's code panicked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Panicked {
    /// Which one.
    pub call: u64,
    /// What it said.
    pub message: String,
    /// Where, as `file:line:column`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// How severe a message of a log is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// The user should know.
    Warn,
    /// Worth knowing.
    #[default]
    Info,
    /// For those who look for a mistake.
    Debug,
    /// Everything.
    Trace,
}

/// A message of the plugin's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// How severe.
    #[serde(default)]
    pub level: LogLevel,
    /// The part of the plugin that it is from.
    #[serde(default)]
    pub target: String,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// What else was said.
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// Inside of what, from the outermost.
    #[serde(default)]
    pub spans: Vec<Span>,
}

/// Something that was going on when a message was logged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// What is said of it.
    #[serde(default)]
    pub fields: Map<String, Value>,
}

/// The answer to `ping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// The number of the `ping`.
    pub n: u64,
}
