//! Drives an agent's program: passes on what it prints as events, ends it when that is asked for, and
//! joins its own account with how its process ended.
//!
//! What the adapters that hold a conversation with their agent need of it is here too: what it prints
//! cut into lines, and what they refuse it.
//!
//! [`Program`] finds what is to be run.
//!
//! What the output means is said by an [`Output`]: [`Lines`] for agents that print a message a line,
//! read by a [`LineParser`], or another.

mod drive;
mod guarded;
mod output;
mod printed;
mod program;

pub use drive::{Drive, LINGER, not_started};
pub use guarded::Guarded;
pub use output::{Ended, LineParser, Lines, Output, conclude};
pub use printed::{Printed, Printout};
pub use program::Program;
