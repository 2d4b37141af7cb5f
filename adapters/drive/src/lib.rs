//! Drives an agent's program: passes on what it prints as events, ends it when that is asked for, and
//! joins its own account with how its process ended.
//!
//! What the output means is said by an [`Output`]: [`Lines`] for agents that print a message a line,
//! read by a [`LineParser`], or another.

mod drive;
mod output;

pub use drive::{Drive, LINGER};
pub use output::{Ended, LineParser, Lines, Output, conclude};
