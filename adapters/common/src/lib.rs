//! Runs an agent's process and reads what it prints: what adapters share.
//! Knows neither the engine nor any adapter.
//!
//! [`ProcessRun`] runs an agent's process: it emits what the process prints as events, ends it when that is
//! asked for, and reports what is left of it. What the output means is decided by a [`ProcessHandler`]:
//! [`LineHandler`] for agents that print a message a line, read by a [`LineParser`], or the adapter's own.
//!
//! [`claude_stream`], [`codex_stream`] and [`opencode`] read what these agents, and those that imitate
//! them, print. [`Program`] finds the program to run; [`claude_program`] adds what is particular to
//! `claude`. [`agent_tools`] are the orchestrator's own tools for agents.

pub mod agent_tools;
pub mod claude_program;
pub mod claude_stream;
pub mod codex_stream;
pub mod error_text;
pub mod json;
mod line_handler;
mod line_reader;
pub mod opencode;
mod process_handler;
mod process_run;
mod program;
mod rate_limit_reset;
mod rate_window;
mod system_prompt;
mod write_guard;

pub use line_handler::{LineHandler, LineParser};
pub use line_reader::{LineReader, MAX_LINE, OutputLine};
pub use process_handler::{Actions, EXIT_GRACE, ProcessEnd, ProcessHandler};
pub use process_run::{ProcessRun, spawn, spawn_with_input};
pub use program::Program;
pub use system_prompt::validate_system_prompt;
pub use write_guard::WriteGuard;
