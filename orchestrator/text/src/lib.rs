//! Formats text for people and prompts: measures, folds and cuts it, makes what programs print harmless, and formats
//! numbers, times and paths.
//! Must not know runs, agents or what is behind a terminal: text in, text out.
//!
//! Whatever an agent, a check or a file brings may steer a terminal, reorder a line, or hide words from a person that a
//! model still reads. [`is_printable`] is the one definition of what is shown as it is.

mod cut;
mod escape;
mod escape_sequences;
mod fold;
mod invisible;
mod numbers;
mod path;
mod table;
mod time;
mod width;
mod wrap;

pub use cut::{one_line, plain_line, truncate};
pub use escape::{escape, escape_line};
pub use escape_sequences::strip_escape_sequences;
pub use fold::{NO_BREAK, fold};
pub use invisible::{is_invisible, is_printable, is_zero_width};
pub use numbers::{bytes, clock, count, duration, len, short_duration, short_number};
pub use path::shorten_home;
pub use table::{cell_widths, join_cells};
pub use time::{local, local_clock, local_minute, timestamp};
pub use width::{char_width, columns, fit, fit_end};
pub use wrap::wrap;
