//! What Claude Code, and agents that imitate it, print with `--output-format stream-json` or `json`.
//!
//! [`Message`] is one line, read leniently: a field that is missing, new or of the wrong type never
//! costs more than itself. [`ClaudeParser`] turns lines into events while the agent runs and, when it has
//! ended, the whole into a report or a classed error. Nothing here starts processes.

mod context;
mod ending;
mod fast_path;
mod lenient;
mod message;
mod meter;
mod parser;
mod rate_limit;
mod text;

pub use context::Context;
pub use message::{
    Assistant, Block, Compaction, Denial, Fallback, Init, McpServer, Message, ModelUsage, Outcome,
    Retry, System, User, WireUsage,
};
pub use parser::{ClaudeParser, objects};
pub use rate_limit::{RateLimit, UnifiedWindow};
pub use text::bounded;
