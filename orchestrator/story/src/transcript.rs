//! What the agent of an iteration said and did.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_text::{escape, one_line};

use crate::located_run::LocatedRun;
use crate::words::tool_line;

/// Of a longer transcript the end is shown, in bytes.
const LONGEST_TRANSCRIPT: u64 = 8 * 1024 * 1024;
/// Events of a transcript that are shown, the newest.
const MOST_EVENTS: usize = 2000;
/// What the agent of an iteration said and did.
pub struct Transcript {
    /// As `log N` prints it.
    pub lines: VecDeque<String>,
    /// There was more before it.
    pub is_truncated: bool,
}

impl LocatedRun {
    /// Returns what the agent said and did, the end of it if it is long.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is none; it cannot be read.
    pub fn transcript(&self, number: u64) -> io::Result<Transcript> {
        self.transcript_end(number, LONGEST_TRANSCRIPT)
    }

    /// Returns how long the transcript is, in bytes; 0 if there is none.
    pub fn transcript_len(&self, number: u64) -> u64 {
        std::fs::metadata(self.transcript_file(number)).map_or(0, |file| file.len())
    }

    fn transcript_file(&self, number: u64) -> PathBuf {
        transcript_file(&self.state_dir.layout, &self.run, number)
    }

    /// Returns the same of so many bytes at the end.
    pub fn transcript_end(&self, number: u64, longest: u64) -> io::Result<Transcript> {
        let mut file = File::open(self.transcript_file(number))?;
        let len = file.metadata()?.len();
        let begin = len.saturating_sub(longest);
        file.seek(SeekFrom::Start(begin))?;
        let mut reader = BufReader::new(file);
        let (mut lines, mut line) = (VecDeque::new(), Vec::new());
        let mut is_truncated = begin > 0;
        if begin > 0 {
            reader.read_until(b'\n', &mut line)?;
        }
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let event = serde_json::from_slice::<Event>(&line).ok();
            lines.extend(event.and_then(describe));
            if lines.len() > MOST_EVENTS {
                lines.pop_front();
                is_truncated = true;
            }
        }
        Ok(Transcript { lines, is_truncated })
    }
}

/// Reads the transcript of an iteration again and again, each time only what is new.
pub struct TranscriptReader {
    path: PathBuf,
    /// Bytes that were read.
    offset: u64,
    /// A line that has not ended yet.
    rest: Vec<u8>,
}

impl TranscriptReader {
    /// Returns the reader of a transcript, which need not exist yet.
    #[must_use]
    pub fn new(layout: &Layout, run: &str, iteration: u64) -> Self {
        let path = transcript_file(layout, run, iteration);
        Self { path, offset: 0, rest: Vec::new() }
    }

    /// How long the transcript is; nothing was said as long as there is none.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Returns what was added since the last time, whole lines only.
    ///
    /// # Errors
    /// The transcript exists and cannot be read.
    pub fn read_new(&mut self) -> io::Result<Vec<u8>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.read_to_end(&mut self.rest)?;
        self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Ok(self.rest.drain(..end).collect())
    }
}

fn transcript_file(layout: &Layout, run: &str, iteration: u64) -> PathBuf {
    layout.iteration(run, iteration).join("transcript.jsonl")
}

/// Returns what an event says, in words; `None` if people do not care about it.
pub fn describe(event: Event) -> Option<String> {
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
