//! Measures, folds and cuts text for people and prompts, and makes what programs print harmless.
//! Must not know terminals, files or runs.
//!
//! Whatever an agent, a check or a file brings may steer a terminal, reorder a line, or hide words from a person that a
//! model still reads. [`is_printable`] is the one definition of what is shown as it is.

mod cut;
mod escape;
mod escape_sequences;
mod fold;
mod invisible;
mod width;
mod wrap;

pub use cut::{one_line, plain_line, truncate};
pub use escape::{escape, escape_line};
pub use escape_sequences::strip_escape_sequences;
pub use fold::{NO_BREAK, fold};
pub use invisible::{is_invisible, is_printable, is_zero_width};
pub use width::{char_width, columns, fit, fit_end};
pub use wrap::wrap;
