//! Prints the transcript of an iteration.

use std::io;

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_story::transcript::{TranscriptReader, describe};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::escape;

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TranscriptFormat {
    /// In words.
    Text,
    /// As the lines of the transcript.
    Json,
    /// As the lines that the agent printed.
    Raw,
}

/// Prints what is new in the transcript of an iteration.
pub(super) struct TranscriptPrinter {
    pub(super) iteration: u64,
    format: TranscriptFormat,
    reader: TranscriptReader,
}

impl TranscriptPrinter {
    pub(super) fn new(
        layout: &Layout,
        run: &str,
        iteration: u64,
        format: TranscriptFormat,
    ) -> Self {
        Self { iteration, format, reader: TranscriptReader::new(layout, run, iteration) }
    }

    /// How long the transcript is.
    pub(super) fn file_len(&self) -> u64 {
        self.reader.file_len()
    }

    /// Prints what was added since the last time, whole lines only.
    pub(super) fn print_new(&mut self) -> io::Result<()> {
        let lines = self.reader.read_new()?;
        lines.split_inclusive(|byte| *byte == b'\n').for_each(|line| self.print(line));
        Ok(())
    }

    fn print(&self, line: &[u8]) {
        if self.format == TranscriptFormat::Json {
            return output::raw(line);
        }
        let Ok(event) = serde_json::from_slice::<Event>(line) else { return };
        match self.format {
            TranscriptFormat::Raw => raw(event),
            TranscriptFormat::Text | TranscriptFormat::Json => {
                if let Some(text) = describe(event) {
                    output::result(&text);
                }
            }
        }
    }
}

fn raw(event: Event) {
    if let Event::Raw { line } = event {
        let shown = if output::is_stdout_terminal() { escape(&line) } else { line };
        output::result(&shown);
    }
}
