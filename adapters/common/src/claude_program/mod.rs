//! What the adapters for the program `claude` share: finding and checking it, its environment and its
//! arguments, and what its end means.

mod advice;
mod environment;
mod options;
mod program;

pub use advice::conclude;
pub use environment::{STRIPS, WANTS};
pub use options::{ClaudeOptions, no_empty};
pub use program::ClaudeProgram;
