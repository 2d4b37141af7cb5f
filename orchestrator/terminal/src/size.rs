//! What is known of the terminals that the program prints on.

use std::io::{IsTerminal as _, stderr, stdout};
use std::os::fd::AsFd;

/// Columns of a terminal that does not say how many it has.
pub const USUAL_WIDTH: usize = 80;
/// Narrower than this nothing can be laid out: longer lines are left to the terminal.
const NARROWEST: usize = 20;

/// Columns of the terminal behind stdout; `None` if it is none.
pub fn stdout_width() -> Option<usize> {
    stdout().is_terminal().then(|| width(stdout()))
}

/// Columns of the terminal behind stderr; `None` if it is none.
pub fn stderr_width() -> Option<usize> {
    stderr().is_terminal().then(|| width(stderr()))
}

fn width(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL_WIDTH } else { columns.max(NARROWEST) }
}

/// Whether the terminal understands more than plain lines.
pub fn has_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}
