//! Write an agent, a completion detector, an evidence validator or a format of backlogs, and export it
//! with one macro.
//!
//! A plugin is a library (`crate-type = ["cdylib"]`) that implements the same traits as everything that
//! is built in, [`Agent`], [`CompletionDetector`], [`EvidenceValidator`] and [`BacklogFormat`], and names what it provides
//! with [`export_plugin!`]. The configuration names the library in `[plugins.NAME]`. It always runs in a
//! process of its own.
//!
//! # The environment of a plugin
//!
//! - **A runtime.** Its code runs on a multi-threaded runtime of tokio with two workers that belongs to
//!   the plugin alone: `tokio::process`, `tokio::time` and threads of its own work as usual. A future
//!   that blocks its thread holds up only the plugin, but cannot be ended; use `spawn_blocking`.
//! - **Backpressure.** [`EventSink::emit`] returns when there is room. Do not read on before.
//! - **Cancellation.** [`CancelSignal::cancelled`] resolves when the call has to end. What has not
//!   returned when the grace has passed is aborted: its future is dropped.
//! - **Panics** are caught and reported with message and location; the call fails, the plugin continues.
//!   A panic during a panic, `abort` and `exit` end the process, and so the call.
//! - **A log.** `tracing` events appear in the orchestrator's own log, with fields and spans.
//! - **Standard output** of the process carries frames: what the plugin prints there goes to standard
//!   error. `SIGINT` is handled by the orchestrator: a run that has to end is cancelled.
//!
//! With the feature `process`, `ProcessTree` starts programs and ends them with all that they have started.
//! [`testing`] has what a plugin's own tests need.
//!
//! An instance lives for one iteration. Keep nothing in it for the next one.

#![allow(unsafe_code, reason = "see ffi.rs, where each is justified")]

mod export;
mod ffi;
mod guard;
mod in_flight;
mod item;
mod log;
mod outbox;
#[cfg(feature = "process")]
mod process_tree;
mod session;
mod sink;
pub mod testing;
mod tool_server;
mod versions;

#[cfg(feature = "process")]
pub use process_tree::ProcessTree;
pub use ralph_orchestrator_contract::*;
pub use tool_server::tool_server_command;

/// For [`export_plugin!`] only.
#[doc(hidden)]
pub mod __private {
    pub use crate::export::{Part, check, length, schema, summary, text};
    pub use crate::ffi::{decl, open};
    pub use crate::item::{BuiltItem, ItemDefinition, PluginDefinition};
    pub use crate::versions::{RUSTC, SDK};
    pub use ralph_orchestrator_plugin_abi::{HostApi, PluginDecl};
    pub use ralph_orchestrator_plugin_protocol::ItemKind;
    pub use serde_json::Value;
}
