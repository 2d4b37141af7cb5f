//! Evidence that says itself that something failed.
//!
//! What counts is the exact form in which a tool reports a failure, at the beginning of a line: no
//! word decides anything. A report that is quoted in prose, indented or behind `> ` is none.

mod forms;
mod json;
mod junit;
mod lines;
mod traceback;

use crate::cooperative::{Cancellable, Yielder};
use lines::Lines;

/// A line that reports a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Counted from 1.
    pub(crate) line: usize,
    /// The line, without colours.
    pub(crate) text: String,
    /// Whose report it is.
    pub(crate) tool: &'static str,
}

/// Finds the line that says most clearly that something failed.
pub(crate) async fn find(text: &str, yielder: &mut Yielder<'_>) -> Cancellable<Option<Failure>> {
    if let Some(found) = json::find(text) {
        return Ok(found);
    }
    yielder.yield_now().await?;
    if let Some(found) = junit::find(text) {
        return Ok(found);
    }
    yielder.yield_now().await?;
    let mut lines = Lines::default();
    let mut done = 0;
    for (index, line) in text.split('\n').enumerate() {
        // What follows a carriage return is what a terminal shows.
        for part in line.split('\r').filter(|part| !part.is_empty()) {
            lines.push(index + 1, part);
        }
        done += line.len() + 1;
        if done >= lines::STRIDE {
            done = 0;
            yielder.yield_now().await?;
        }
    }
    Ok(lines.finish())
}

/// The failure at this byte of a document.
fn at(text: &str, byte: usize, tool: &'static str) -> Failure {
    let before = text.get(..byte).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    Failure {
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        text: line.trim().to_owned(),
        tool,
    }
}
