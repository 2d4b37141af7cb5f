//! The only place that prints: results on stdout, words for people on stderr.

use std::io::{self, IsTerminal as _, Write as _};

use crate::error::CommandError;

/// Whether stderr is a terminal that wants colours.
pub(crate) fn colour() -> bool {
    io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether results go to a terminal.
pub(crate) fn is_shown() -> bool {
    io::stdout().is_terminal()
}

/// A line of a result. Nobody may be reading any more: that is no error.
pub(crate) fn result(line: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Bytes of a result, as they are.
pub(crate) fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    drop(out.write_all(bytes).and_then(|()| out.flush()));
}

/// A line for people.
pub(crate) fn say(line: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(line.as_bytes()).and_then(|()| err.write_all(b"\n")));
}

/// A piece of a line for people.
pub(crate) fn say_part(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

/// Why a command failed.
pub(crate) fn problem(error: &CommandError) {
    say(&error.render(colour()));
}

/// One JSON value on a line.
pub(crate) fn json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => result(&text),
        Err(error) => say(&format!("error: {error}")),
    }
}
