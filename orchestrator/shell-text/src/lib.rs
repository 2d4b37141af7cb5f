//! Reads the text of a shell as the commands that it is made of, and writes words that a shell reads back.
//! Must not know which programs do what, files, or runs.
//!
//! A shell can hide anything from a reader that runs nothing. So there are two answers: [`ShellText::known`] stops before
//! the first thing of which only a shell knows what it does, for those who must not guess; [`ShellText::commands`] goes
//! on through it, for those who would rather see a command too many.

mod assignment;
mod quote;
mod read;

pub use assignment::is_assignment;
pub use quote::{quote_command, quote_word};
pub use read::{Command, Part, ShellText, Word, read_shell};
