//! Write an agent, a completion detector or an evidence validator, and export it with one macro.
//!
//! A plugin is a library (`crate-type = ["cdylib"]`) that implements the same traits as everything that
//! is built in, [`Agent`], [`CompletionDetector`] and [`EvidenceValidator`], and names what it provides
//! with [`export_plugin!`]. The operator names the library in `[plugins.NAME]` and decides whether it
//! runs in a process of its own (`isolation = "process"`, the default) or inside of the orchestrator
//! (`isolation = "none"`). The plugin need not know.
//!
//! # What a plugin finds
//!
//! - **A runtime.** Its code runs on a multi-threaded runtime of tokio with two workers that belongs to
//!   the plugin alone: `tokio::process`, `tokio::time` and threads of its own work as usual. A future
//!   that blocks its thread holds up only the plugin, but cannot be ended; use `spawn_blocking`.
//! - **Backpressure.** [`EventSink::emit`] returns when there is room. Do not read on before.
//! - **Cancellation.** [`CancelSignal::cancelled`] resolves when the call has to end. What has not
//!   returned when the grace has passed is aborted: its future is dropped.
//! - **Panics** are caught and reported with their text and place; the call fails, the plugin goes on.
//!   A panic during a panic, `abort` and `exit` end the process, which is why it is one of its own.
//! - **A log.** What is said with `tracing` appears in the orchestrator's own, with fields and spans.
//! - **Standard output** of the process is not the plugin's: what it prints there goes to standard
//!   error. `SIGINT` is not the plugin's either: a run that has to end is cancelled.
//!
//! With process isolation an instance lives for one iteration. Keep nothing in it for the next.

#![allow(unsafe_code, reason = "see glue.rs, which says why each is sound")]

mod calls;
mod export;
mod glue;
mod guard;
mod item;
mod log;
mod out;
mod session;
mod sink;

pub use ralph_orchestrator_contract::*;

/// For [`export_plugin!`] alone.
#[doc(hidden)]
pub mod __private {
    pub use crate::export::{Part, check, length, summary, text};
    pub use crate::glue::{RUSTC, SDK, decl, open};
    pub use crate::item::{Built, ItemOf, Plugin};
    pub use plugin_abi::{HostApi, PluginDecl};
    pub use plugin_protocol::ItemKind;
    pub use serde_json::Value;
}
