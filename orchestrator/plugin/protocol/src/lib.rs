//! Defines the frames between ralph-orchestrator and its plugins.
//! Must not know how frames travel.
//!
//! A frame is one JSON object whose key `frame` names its type. The same frames go over every transport:
//! one per line over the standard streams of a process, or as bytes over the C interface of a library.
//! The host sends [`HostFrame`]s, a plugin sends [`PluginFrame`]s; [`encode`] and [`decode`] convert them
//! to and from bytes, within [`MAX_FRAME`]. Unknown frames and keys are ignored: a newer version sends
//! them.

mod base64;
mod codec;
mod host;
mod log_line;
mod method;
mod mistyped;
mod plugin;
mod unknown_words;

pub use codec::{DecodeError, Decoded, EncodeError, Frame, decode, encode};
pub use host::{
    Call, Cancel, Close, Credit, GuidanceResult, HostFrame, HostHello, Open, Ping, PreviewResult,
    WriteCheckResult,
};
pub use log_line::{LogLevel, LogLine, Span};
pub use method::{
    Answer, EditedBacklog, InspectInput, Method, MethodName, ReadBacklog, Task, TaskError,
    Validation,
};
pub use plugin::{
    DetectorDescription, Done, EventSent, Failed, Item, ItemKind, Opened, Panicked, PluginFrame,
    PluginHello, Pong, PreviewRequest, Provided, Refused, TakeGuidance, ValidatorDetails,
    WriteCheck,
};
pub use unknown_words::UnknownWord;

/// The longest frame in bytes, without its line end.
pub use ralph_orchestrator_plugin_abi::MAX_FRAME;

/// The version of this protocol. Peers of another version are refused; additions within one are features.
pub const PROTOCOL: u32 = 1;
/// The number of events that a call may send before it waits for credit, if `credit` is negotiated.
pub const WINDOW: u32 = 64;

/// The features that either side may announce in its `hello`. Only those announced by both are used.
pub mod feature {
    /// A call sends at most the window's number of events before it waits for more credit.
    pub const CREDIT: &str = "credit";
    /// The plugin answers `ping` at any time.
    pub const PING: &str = "ping";
    /// The host answers `write_check`.
    pub const WRITE_CHECK: &str = "write_check";
    /// The plugin knows the reasons of `cancel` that were added later: `handoff` and `pause`.
    pub const CANCEL_REASONS: &str = "cancel_reasons";
    /// The plugin's validators answer `find_setup_problems`.
    pub const SETUP_PROBLEMS: &str = "setup_problems";
    /// The plugin's agents answer `launch`.
    pub const LAUNCH: &str = "launch";
    /// The host answers `take_guidance`.
    pub const GUIDANCE: &str = "guidance";

    /// All of them.
    pub const ALL: [&str; 7] =
        [CREDIT, PING, WRITE_CHECK, CANCEL_REASONS, SETUP_PROBLEMS, LAUNCH, GUIDANCE];
}
