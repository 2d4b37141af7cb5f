//! Formats text for people: makes what programs printed harmless, fits and folds it to a width, quotes words for a
//! shell, and formats numbers, times and paths.
//! Must not know runs, agents or what is behind a terminal: text in, text out.

mod escape;
mod fold;
mod numbers;
mod path;
mod shell_word;
mod time;

pub use escape::{escape, one_line};
pub use fold::{NO_BREAK, columns, fit, fit_end, fold, wrap};
pub use numbers::{bytes, clock, count, duration, len, short_duration, short_number};
pub use path::shorten_home;
pub use shell_word::shell_word;
pub use time::{local, local_clock, local_minute, timestamp};
