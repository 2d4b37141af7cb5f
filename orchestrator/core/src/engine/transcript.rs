//! The record of one iteration: what was sent, what came back.

use std::io::{self, BufWriter, Write as _};

use jiff::Timestamp;

use super::files::Files;
use crate::store::File;
use ralph_orchestrator_contract::Event;

/// Most bytes kept of each stream of an iteration.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Writes `transcript.jsonl` and `stderr.log` of an iteration, each if there is something to write.
/// Trouble with them never ends an iteration: it is told once.
#[derive(Debug)]
pub(super) struct Transcript {
    events: Capped,
    stderr: Capped,
}

impl Transcript {
    pub(super) fn new(files: Files) -> Self {
        Self {
            events: Capped::new(files.clone(), "transcript.jsonl"),
            stderr: Capped::new(files, "stderr.log"),
        }
    }

    /// Notes an event. Says what went wrong, the first time.
    pub(super) fn note(&mut self, event: &Event) -> Option<String> {
        if let Event::Stderr { text } = event {
            return self.stderr.write(&[text.as_bytes(), b"\n"]);
        }
        if self.events.is_full() {
            // Writing it out only to count it would cost more than everything else.
            self.events.pass_over(length(event));
            return None;
        }
        let body = serde_json::to_string(event).unwrap_or_default();
        let fields = body.strip_prefix('{').unwrap_or_default();
        let time = Timestamp::now();
        self.events.write(&[
            b"{\"time\":\"",
            time.to_string().as_bytes(),
            b"\",",
            fields.as_bytes(),
            b"\n",
        ])
    }

    /// Counts what is not written down at all.
    pub(super) fn pass_over(&mut self, bytes: usize) {
        self.events.pass_over(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Hands over to the system what was noted so far. Says what went wrong, if nothing did before.
    pub(super) fn flush(&mut self) -> Option<String> {
        let events = self.events.flush();
        events.or(self.stderr.flush())
    }

    /// Says in the files what was cut. Says what went wrong, if nothing did before.
    pub(super) fn finish(&mut self) -> Option<String> {
        let events = self.events.finish(|cut| format!("{{\"type\":\"cut\",\"bytes\":{cut}}}\n"));
        let stderr = self.stderr.finish(|cut| format!("[{cut} bytes cut]\n"));
        events.or(stderr)
    }
}

/// The bytes of the text of an event that is nothing but text.
pub(super) fn text_len(event: &Event) -> Option<usize> {
    match event {
        Event::Text { text }
        | Event::Thinking { text }
        | Event::ToolResult { text, .. }
        | Event::Stderr { text }
        | Event::Raw { line: text } => Some(text.len()),
        _ => None,
    }
}

/// The same as a number to count with; others are not worth counting.
fn length(event: &Event) -> u64 {
    u64::try_from(text_len(event).unwrap_or_default()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct Capped {
    files: Files,
    name: &'static str,
    file: Option<BufWriter<File>>,
    written: u64,
    cut: u64,
    broken: bool,
}

impl Capped {
    const fn new(files: Files, name: &'static str) -> Self {
        Self { files, name, file: None, written: 0, cut: 0, broken: false }
    }

    const fn is_full(&self) -> bool {
        self.broken || self.cut > 0
    }

    const fn pass_over(&mut self, bytes: u64) {
        self.cut = self.cut.saturating_add(bytes);
    }

    fn write(&mut self, parts: &[&[u8]]) -> Option<String> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        if self.is_full() || self.written.saturating_add(len) > LARGEST {
            self.pass_over(len);
            return None;
        }
        self.written = self.written.saturating_add(len);
        let result =
            self.file().and_then(|file| parts.iter().try_for_each(|part| file.write_all(part)));
        self.told(result)
    }

    fn flush(&mut self) -> Option<String> {
        let result = match &mut self.file {
            Some(file) if !self.broken => file.flush(),
            _ => return None,
        };
        self.told(result)
    }

    fn finish(&mut self, cut: impl Fn(u64) -> String) -> Option<String> {
        if self.broken || (self.file.is_none() && self.cut == 0) {
            return None;
        }
        let cut = if self.cut > 0 { cut(self.cut) } else { String::new() };
        let result =
            self.file().and_then(|file| file.write_all(cut.as_bytes()).and_then(|()| file.flush()));
        self.told(result)
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => BufWriter::new(self.files.append(self.name)?),
        };
        Ok(self.file.insert(file))
    }

    fn told(&mut self, result: io::Result<()>) -> Option<String> {
        result.err().map(|error| {
            self.broken = true;
            format!("the transcript of this iteration is incomplete: {error}")
        })
    }
}
