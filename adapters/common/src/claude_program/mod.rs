//! What the adapters for the program `claude` have in common: finding and checking it, its
//! environment and its arguments, cutting what it prints into lines, and what to say of its end.

mod advice;
mod environment;
mod options;
mod program;

pub use advice::explained;
pub use environment::{STRIPS, WANTS};
pub use options::{Options, no_empty, wrong_element};
pub use program::Program;

use std::time::Duration;

/// How long the process may go on after its result: it has been seen to hang there for ever.
pub const AFTER_RESULT: Duration = Duration::from_secs(10);
