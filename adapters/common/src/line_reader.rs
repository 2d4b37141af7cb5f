//! What the process prints, line by line.

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_supervisor::lines::{Line, LineSplitter};
use ralph_orchestrator_supervisor::{Capture, CaptureLimit, Chunk, Stream};

/// Longest line of the protocol: tool results with whole files are among them.
const MAX_LINE: usize = 8 * 1024 * 1024;
const MAX_STDERR_LINE: usize = 64 * 1024;
/// So much of the standard error's end is kept for messages.
const STDERR_TAIL: CaptureLimit = CaptureLimit { head: 0, tail: 4096 };

/// A line that was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    /// Of the protocol.
    Line(String),
    /// Of the protocol, but longer than can be read.
    Cut {
        /// Its beginning.
        line: String,
        /// The whole line's length in bytes.
        bytes: u64,
    },
    /// Of the standard error.
    Stderr(String),
}

impl Printed {
    /// What to tell of a line that is too long.
    #[must_use]
    pub fn too_long(bytes: u64) -> Event {
        let message =
            format!("the agent printed a line of {bytes} bytes, which is longer than can be read");
        Event::Warning { message }
    }
}

/// Cuts both streams into lines, in bounded memory.
#[derive(Debug)]
pub struct Printout {
    stdout: LineSplitter,
    stderr: LineSplitter,
    stderr_tail: Capture,
}

impl Default for Printout {
    fn default() -> Self {
        Self {
            stdout: LineSplitter::new(MAX_LINE),
            stderr: LineSplitter::new(MAX_STDERR_LINE),
            stderr_tail: Capture::new(STDERR_TAIL),
        }
    }
}

impl Printout {
    /// The lines that this piece completes.
    pub fn take(&mut self, chunk: &Chunk) -> Vec<Printed> {
        let mut lines = Vec::new();
        match chunk.stream {
            Stream::Stdout => self.stdout.push(&chunk.bytes, |line| lines.push(of_stdout(line))),
            Stream::Stderr => {
                self.stderr_tail.push(&chunk.bytes);
                self.stderr.push(&chunk.bytes, |line| lines.push(of_stderr(line)));
            }
        }
        lines
    }

    /// Last lines without an end.
    pub fn rest(&mut self) -> Vec<Printed> {
        let mut lines = Vec::new();
        self.stdout.finish(|line| lines.push(of_stdout(line)));
        self.stderr.finish(|line| lines.push(of_stderr(line)));
        lines
    }

    /// The end of the standard error, for messages.
    #[must_use]
    pub fn stderr(self) -> String {
        self.stderr_tail.finish().text()
    }
}

fn of_stdout(line: Line<'_>) -> Printed {
    let (text, dropped) = (line.text.into_owned(), line.dropped);
    if dropped == 0 {
        return Printed::Line(text);
    }
    let bytes = dropped.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
    Printed::Cut { line: text, bytes }
}

fn of_stderr(line: Line<'_>) -> Printed {
    Printed::Stderr(line.text.into_owned())
}
