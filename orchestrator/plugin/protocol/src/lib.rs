//! The frames between ralph-orchestrator and its plugins.
//!
//! A frame is one JSON object whose key `frame` says what it is. The same frames go over every carrier:
//! one a line over the standard streams of a process, or as bytes over the C interface of a library.
//! [`HostFrame`] is what the host sends, [`PluginFrame`] what a plugin sends; [`encode`] and [`decode`]
//! turn them into bytes and back, within [`MAX_FRAME`]. Frames and keys that are not known are no
//! mistake: they are what a newer version says.

mod base64;
mod code;
mod host;
mod method;
mod plugin;

pub use code::{DecodeError, Decoded, EncodeError, Frame, decode, encode};
pub use host::{Call, Cancel, Close, Credit, HostFrame, HostHello, JudgementGiven, Open, Ping};
pub use method::{Answer, LookAt, Method, MethodName, Task, TaskError, Validation};
pub use plugin::{
    DetectorDescription, Done, EventSent, Failed, Item, ItemKind, Judge, LogLevel, LogLine, Opened,
    Panicked, PluginFrame, PluginHello, Pong, Provided, Refused, Span, ValidatorOpened,
};

/// The version of this protocol. Another one is refused; what is new within one is a feature.
pub const PROTOCOL: u32 = 1;
/// The longest frame, in bytes, without the end of its line.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;
/// Events that a call may send before it waits for credit, if `credit` is agreed on.
pub const WINDOW: u32 = 64;

/// What both sides may announce in their hello. Only what both announce is in use.
pub mod feature {
    /// A call sends at most the window's number of events before it waits for more credit.
    pub const CREDIT: &str = "credit";
    /// The plugin answers `ping` at any time.
    pub const PING: &str = "ping";
}
