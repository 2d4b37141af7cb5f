//! What the agent of an iteration said and did.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_text::{escape, one_line};

use crate::output;
use crate::render::text::tool_line;

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranscriptFormat {
    /// In words.
    Text,
    /// As the lines of the transcript.
    Json,
    /// As the lines that the agent printed.
    Raw,
}

/// Prints what is new in the transcript of an iteration.
pub(crate) struct TranscriptReader {
    layout: Layout,
    run: String,
    pub(crate) iteration: u64,
    format: TranscriptFormat,
    /// Bytes that were read.
    offset: u64,
    /// A line that has not ended yet.
    rest: Vec<u8>,
}

impl TranscriptReader {
    pub(crate) fn new(
        layout: &Layout,
        run: &str,
        iteration: u64,
        format: TranscriptFormat,
    ) -> Self {
        let (layout, run) = (layout.clone(), run.to_owned());
        Self { layout, run, iteration, format, offset: 0, rest: Vec::new() }
    }

    /// How long the transcript is; nothing was said as long as there is none.
    pub(crate) fn len(&self) -> u64 {
        std::fs::metadata(self.path()).map_or(0, |file| file.len())
    }

    fn path(&self) -> std::path::PathBuf {
        self.layout.iteration(&self.run, self.iteration).join("transcript.jsonl")
    }

    /// Prints what was added since the last time, whole lines only.
    pub(crate) fn print_new(&mut self) -> io::Result<()> {
        let mut file = match File::open(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.read_to_end(&mut self.rest)?;
        self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.print(line);
        }
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

/// Returns what an event says, in words; `None` if people do not care about it.
pub(crate) fn describe(event: Event) -> Option<String> {
    Some(match event {
        Event::Text { text } => escape(text.trim_end()),
        Event::ToolCall { name, input, .. } => tool_line(&name, &input),
        Event::ToolResult { text, is_error, .. } => {
            let mark = if is_error { "  failed:" } else { "  ->" };
            format!("{mark} {}", one_line(&text, 200))
        }
        Event::Note { text } => format!("note: {}", escape(&text)),
        Event::Claim { text, .. } => format!("claim: {}", escape(&text)),
        Event::Warning { message } => format!("warning: {}", escape(&message)),
        _ => return None,
    })
}
