//! Cuts what a process prints into lines, in bounded memory.

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_supervisor::lines::{Line, LineSplitter};

/// Longest line of standard output, in bytes: tool results with whole files are among them.
pub const MAX_LINE: usize = 8 * 1024 * 1024;
/// Longest line of standard error, in bytes.
const MAX_STDERR_LINE: usize = 64 * 1024;
/// How much of the end of standard error goes into an error's message, in bytes.
const STDERR_TAIL: usize = 2 * 1024;

/// A line of standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputLine {
    /// The whole line.
    Whole(String),
    /// A line longer than [`MAX_LINE`].
    TooLong {
        /// Its beginning.
        start: String,
        /// The whole line's length in bytes.
        bytes: u64,
    },
}

impl OutputLine {
    /// Returns the whole line.
    ///
    /// # Errors
    /// It is too long: its beginning, and a warning.
    pub fn into_whole(self) -> Result<String, Vec<Event>> {
        match self {
            Self::Whole(line) => Ok(line),
            Self::TooLong { start, bytes } => {
                let message =
                    format!("the agent printed a line of {bytes} bytes, too long to be read");
                Err(vec![Event::Raw { line: start }, Event::Warning { message }])
            }
        }
    }
}

/// Cuts standard output into lines.
#[derive(Debug)]
pub struct LineReader(LineSplitter);

impl Default for LineReader {
    fn default() -> Self {
        Self(LineSplitter::new(MAX_LINE))
    }
}

impl LineReader {
    /// Returns the lines that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<OutputLine> {
        let mut lines = Vec::new();
        self.0.push(bytes, |line| lines.push(line.into()));
        lines
    }

    /// Returns the last line if it has no end.
    pub fn finish(&mut self) -> Option<OutputLine> {
        let mut last = None;
        self.0.finish(|line| last = Some(line.into()));
        last
    }
}

impl From<Line<'_>> for OutputLine {
    fn from(line: Line<'_>) -> Self {
        let (text, dropped) = (line.text.into_owned(), line.dropped);
        if dropped == 0 {
            return Self::Whole(text);
        }
        let bytes = dropped.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        Self::TooLong { start: text, bytes }
    }
}

/// Cuts standard error into lines, and keeps its end for error messages.
#[derive(Debug)]
pub(crate) struct StderrReader {
    lines: LineSplitter,
    tail: String,
}

impl Default for StderrReader {
    fn default() -> Self {
        Self { lines: LineSplitter::new(MAX_STDERR_LINE), tail: String::new() }
    }
}

impl StderrReader {
    /// Returns the events of the lines that these bytes complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let (mut events, tail) = (Vec::new(), &mut self.tail);
        self.lines.push(bytes, |line| events.push(stderr_event(&line.text, tail)));
        events
    }

    /// Returns the event of the last line if it has no end.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        let (mut event, tail) = (None, &mut self.tail);
        self.lines.finish(|line| event = Some(stderr_event(&line.text, tail)));
        event
    }

    /// Returns the end of standard error.
    pub(crate) fn into_tail(self) -> String {
        self.tail
    }
}

fn stderr_event(line: &str, tail: &mut String) -> Event {
    tail.push_str(line);
    tail.push('\n');
    if tail.len() > STDERR_TAIL {
        let surplus = tail.ceil_char_boundary(tail.len() - STDERR_TAIL);
        // The cut must be visible: what follows it may be the rest of a secret.
        tail.replace_range(..surplus, "…");
    }
    Event::Stderr { text: line.to_owned() }
}
