//! Fake agents and a loopback model server for tests.
//!
//! Everything here is for tests and panics, with what to do, when something is not as it should be.
//!
//! # The model server by hand
//!
//! `ralph-model-server SCRIPT [PORT]` serves a script on loopback, prints its base URL and then a line
//! for each main request, until it is ended:
//!
//! ```text
//! $ cargo run -p ralph-orchestrator-testkit --bin ralph-model-server -- script.json
//! http://127.0.0.1:40123
//! $ ANTHROPIC_BASE_URL=http://127.0.0.1:40123 ANTHROPIC_API_KEY=dummy claude -p "Do it"
//! ```
//!
//! The script is JSON. Each of its `steps` answers one main request, or `times` many; `forever` answers
//! all that follow, and without it they are errors. A step is a message, or an error or fault:
//!
//! ```json
//! {
//!   "steps": [
//!     {"thinking": "hm", "text": "I write it.", "shell": "echo hello > hello.txt",
//!      "usage": {"input": 2000, "output": 120, "cache_read": 0, "cache_write": 15000}},
//!     {"tool": {"name": "Write", "input": {"file_path": "/tmp/x", "content": "x"}}},
//!     {"error": 429, "message": "slow down", "kind": "rate_limit_error", "times": 2,
//!      "headers": {"retry-after": "1"}, "details": {"resets_at": 4102444800}},
//!     {"failed": "context_length_exceeded", "message": "too long"},
//!     {"text": "half a message", "fault": "stall"},
//!     {"hang": true},
//!     {"drop": true}
//!   ],
//!   "forever": {"text": "Done.", "stop_reason": "end_turn", "pause_ms": 5}
//! }
//! ```
//!
//! `shell` is a call of whatever tool the agent offers for running commands; `fault` is `stall`, `cut`
//! or `error`, after the first piece of a streamed message; `pause_ms` comes before each event of one.
#![allow(clippy::expect_used, clippy::panic)]

pub mod conformance;
pub mod fake_agent;
pub mod flood;
pub mod iteration;
pub mod loopback;
pub mod model_server;
pub mod processes;
pub mod shim;

mod busy_tool;
mod installed;

pub use busy_tool::BusyTool;
pub use installed::{claude_agent_acp, claude_binary, codex_acp, codex_binary};
