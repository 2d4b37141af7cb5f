//! What adapters share.
//!
//! [`Drive`] runs an agent's program: it passes on what the program prints as events, ends it when that
//! is asked for, and joins the agent's own account with how its process ended. [`Program`] finds what is
//! to be run.
//!
//! [`claude_stream`], [`codex_stream`] and [`opencode`] read what these agents, and those that imitate
//! them, print; [`claude_program`] is what the adapters for the program `claude` have in common.

pub mod claude_program;
pub mod claude_stream;
pub mod codex_stream;
pub mod error_text;
pub mod json;
mod line_reader;
pub mod opencode;
mod output;
mod process_run;
mod program;
mod write_guard;

pub use line_reader::{Printed, Printout};
pub use output::{Ended, LineParser, Lines, Output, conclude};
pub use process_run::{Drive, LINGER, not_started};
pub use program::Program;
pub use write_guard::Guarded;
