//! Frames that a plugin sends.

use std::path::PathBuf;

use ralph_orchestrator_contract::{
    AgentError, BuildError, Description, ErrorClass, Event, FormatDescription, Report,
    ValidatorDescription,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::codec::{Frame, body};
use crate::log_line::LogLine;
use crate::method::Answer;
use crate::unknown_words::{UnknownWord, replace_unknown};

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
    /// An event within a call.
    Event(EventSent),
    /// Requests a preview of the validation.
    Preview(PreviewRequest),
    /// Requests whether a path may be written.
    WriteCheck(WriteCheck),
    /// Requests the guidance of people.
    TakeGuidance(TakeGuidance),
    /// A call succeeded.
    Done(Done),
    /// A call failed.
    Failed(Failed),
    /// The plugin's code panicked in a call.
    Panicked(Panicked),
    /// A log message of the plugin.
    Log(LogLine),
    /// Answers `ping`.
    Pong(Pong),
}

impl Frame for PluginFrame {
    fn parse(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>> {
        Some(match name {
            "hello" => body(bytes, Self::Hello),
            "opened" => body(bytes, Self::Opened),
            "refused" => body(bytes, Self::Refused),
            "event" => body(bytes, Self::Event),
            "preview" => body(bytes, Self::Preview),
            "write_check" => body(bytes, Self::WriteCheck),
            "take_guidance" => body(bytes, Self::TakeGuidance),
            "done" => body(bytes, Self::Done),
            "failed" => body(bytes, Self::Failed),
            "panicked" => body(bytes, Self::Panicked),
            "log" => body(bytes, Self::Log),
            "pong" => body(bytes, Self::Pong),
            _ => return None,
        })
    }

    fn parse_known_part(name: &str, bytes: &[u8]) -> Option<(Self, Vec<UnknownWord>)> {
        let Ok(Value::Object(mut frame)) = serde_json::from_slice(bytes) else { return None };
        let unknown = replace_unknown(name, &mut frame);
        let bytes = serde_json::to_vec(&frame).ok()?;
        Some((Self::parse(name, &bytes)?.ok()?, unknown))
    }
}

/// The kinds of items that a plugin can provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// For `[agent] adapter`.
    Agent,
    /// For `[completion] detectors`.
    Detector,
    /// For `[[validator]] kind`.
    Validator,
    /// For `[backlog] kind`.
    Backlog,
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

impl ItemKind {
    /// Returns its name for messages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Detector => "detector",
            Self::Validator => "validator",
            Self::Backlog => "backlog",
            Self::Unknown => "something unknown",
        }
    }
}

/// Something that a plugin provides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// Its name, unique among those of its kind.
    pub name: String,
    /// One line for display.
    #[serde(default)]
    pub summary: String,
    /// The JSON Schema of its table in the configuration, for editors and for mistakes to be found before
    /// the plugin is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// The plugin's first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginHello {
    /// The version of the protocol, [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The plugin's name, for display.
    pub name: String,
    /// Its version, for display.
    #[serde(default)]
    pub version: String,
    /// The SDK that it was built with, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    /// The features of the plugin, see [`feature`](crate::feature).
    #[serde(default)]
    pub features: Vec<String>,
    /// The items that it provides.
    pub provides: Vec<Item>,
}

/// An instance was built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The instance.
    pub instance: u64,
    /// Its description, under the key that is its kind.
    #[serde(flatten)]
    pub provided: Provided,
}

/// The description of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provided {
    /// An agent.
    Agent(Description),
    /// A detector.
    Detector(DetectorDescription),
    /// A validator.
    Validator(ValidatorDetails),
    /// A format of backlogs.
    Backlog(FormatDescription),
}

impl Provided {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> ItemKind {
        match self {
            Self::Agent(_) => ItemKind::Agent,
            Self::Detector(_) => ItemKind::Detector,
            Self::Validator(_) => ItemKind::Validator,
            Self::Backlog(_) => ItemKind::Backlog,
        }
    }
}

/// The description of a detector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DetectorDescription {
    /// One or two sentences for the agent: how to claim completion.
    pub instructions: String,
    /// Texts of which at least one occurs in every instruction on how to claim completion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<String>,
    /// Whether it observes every event of the agent.
    pub observes: bool,
    /// Whether it strips claims from the prompt.
    pub strips: bool,
}

/// The description of a validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorDetails {
    /// Its requirements.
    pub description: ValidatorDescription,
    /// Absolute paths of the folders that hold evidence.
    #[serde(default)]
    pub evidence_dirs: Vec<PathBuf>,
    /// Globs, relative to the workspace, of files that must be as they were when the run began.
    #[serde(default)]
    pub protects: Vec<String>,
    /// Globs, relative to the workspace, of what would change its verdict by being there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_paths: Vec<String>,
    /// Absolute paths of files outside of the workspace that decide its verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside_files: Vec<PathBuf>,
    /// Absolute paths that it goes through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_paths: Vec<PathBuf>,
    /// Whether any change that it makes to the workspace is its error.
    #[serde(default)]
    pub read_only: bool,
    /// Whether it runs something, so that its verdict rests on more than what the agent wrote.
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

/// An instance could not be built: the error in its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The instance.
    pub instance: u64,
    /// The key path of the error within the table.
    #[serde(default)]
    pub key: Vec<String>,
    /// The name of an unknown key, if that is the error.
    #[serde(default)]
    pub unknown_key: Option<String>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl Refused {
    /// Creates the frame from a build error.
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

/// An event within a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventSent {
    /// The call.
    pub call: u64,
    /// The event.
    pub event: Event,
}

/// Requests whether the agent's own tools may write a path; answered by `write_check_result`. Within
/// `find_setup_problems` it asks whether a path, relative to the workspace, has to be as it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteCheck {
    /// The call.
    pub call: u64,
    /// The plugin's number of the request.
    pub request: u64,
    /// The absolute path.
    pub path: PathBuf,
}

/// Requests the guidance that people sent since it was taken last, and records it as delivered; answered by
/// `guidance_result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeGuidance {
    /// The call that requests it.
    pub call: u64,
    /// The plugin's number of the request.
    pub request: u64,
}

/// Requests the result that validation would have if the agent ended now; answered by `preview_result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewRequest {
    /// The call that requests it.
    pub call: u64,
    /// The plugin's number of the request.
    pub request: u64,
    /// The agent's last message, if it ended now.
    #[serde(default)]
    pub final_text: Option<String>,
}

/// A call succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The call.
    pub call: u64,
    /// The result, under the key that belongs to its method.
    #[serde(flatten)]
    pub answer: Answer,
}

/// A call failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The call.
    pub call: u64,
    /// The class of the failure: `class`, and for some `until_ms`.
    #[serde(flatten)]
    pub class: ErrorClass,
    /// What happened and, if known, what to do; for display.
    pub message: String,
    /// Usage and other facts known before the failure.
    #[serde(default)]
    pub report: Box<Report>,
}

impl Failed {
    /// Creates the frame from an agent error.
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

/// The plugin's code panicked in a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Panicked {
    /// The call.
    pub call: u64,
    /// The panic message.
    pub message: String,
    /// The source location, as `file:line:column`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// Answers `ping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// The number of the `ping`.
    pub n: u64,
}
