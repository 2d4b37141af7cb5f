//! The transcript of one iteration: the agent's events and its standard error.

use std::io::{self, BufWriter, Write as _};

use jiff::Timestamp;
use ralph_orchestrator_contract::Event;
use ralph_orchestrator_store::File;

use super::iteration_files::IterationFiles;

/// Most bytes stored of each stream of an iteration.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Writes `transcript.jsonl` and `stderr.log` of an iteration, each if there is something to write.
/// A failure to write them never ends an iteration: it is reported once.
#[derive(Debug)]
pub(super) struct Transcript {
    events: CappedFile,
    stderr: CappedFile,
}

impl Transcript {
    pub(super) fn new(files: IterationFiles) -> Self {
        Self {
            events: CappedFile::new(files.clone(), "transcript.jsonl"),
            stderr: CappedFile::new(files, "stderr.log"),
        }
    }

    /// Appends an event. Returns what went wrong, the first time.
    pub(super) fn append(&mut self, event: &Event) -> Option<String> {
        if let Event::Stderr { text } = event {
            return self.stderr.write(&[text.as_bytes(), b"\n"]);
        }
        if self.events.is_full() {
            // Writing it out only to count it would cost more than everything else.
            self.events.count_skipped(length(event));
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

    /// Counts bytes that are not written at all.
    pub(super) fn count_skipped(&mut self, bytes: usize) {
        self.events.count_skipped(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Passes what was appended so far to the system. Returns what went wrong, if nothing did before.
    pub(super) fn flush(&mut self) -> Option<String> {
        let events = self.events.flush();
        events.or(self.stderr.flush())
    }

    /// Notes in the files how much was cut. Returns what went wrong, if nothing did before, or what
    /// was cut.
    pub(super) fn finish(&mut self) -> Option<String> {
        let events = self.events.finish(|cut| format!("{{\"type\":\"cut\",\"bytes\":{cut}}}\n"));
        let stderr = self.stderr.finish(|cut| format!("[{cut} bytes cut]\n"));
        events.or(stderr).or_else(|| self.events.truncation()).or_else(|| self.stderr.truncation())
    }
}

/// Returns the bytes of an event that is nothing but text.
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

/// Returns the same for counting; 0 for other events.
fn length(event: &Event) -> u64 {
    u64::try_from(text_len(event).unwrap_or_default()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct CappedFile {
    files: IterationFiles,
    name: &'static str,
    file: Option<BufWriter<File>>,
    written: u64,
    cut: u64,
    failed: bool,
}

impl CappedFile {
    const fn new(files: IterationFiles, name: &'static str) -> Self {
        Self { files, name, file: None, written: 0, cut: 0, failed: false }
    }

    const fn is_full(&self) -> bool {
        self.failed || self.cut > 0
    }

    const fn count_skipped(&mut self, bytes: u64) {
        self.cut = self.cut.saturating_add(bytes);
    }

    fn write(&mut self, parts: &[&[u8]]) -> Option<String> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        if self.is_full() || self.written.saturating_add(len) > LARGEST {
            self.count_skipped(len);
            return None;
        }
        self.written = self.written.saturating_add(len);
        let result =
            self.file().and_then(|file| parts.iter().try_for_each(|part| file.write_all(part)));
        self.report_failure(result)
    }

    fn flush(&mut self) -> Option<String> {
        let result = match &mut self.file {
            Some(file) if !self.failed => file.flush(),
            _ => return None,
        };
        self.report_failure(result)
    }

    fn finish(&mut self, cut: impl Fn(u64) -> String) -> Option<String> {
        if self.failed || (self.file.is_none() && self.cut == 0) {
            return None;
        }
        let cut = if self.cut > 0 { cut(self.cut) } else { String::new() };
        let result =
            self.file().and_then(|file| file.write_all(cut.as_bytes()).and_then(|()| file.flush()));
        self.report_failure(result)
    }

    /// Returns what a user has to know of a file that ends before its events do.
    fn truncation(&self) -> Option<String> {
        (self.cut > 0 && !self.failed).then(|| {
            let (name, cut, most) = (self.name, self.cut, LARGEST / (1024 * 1024));
            format!("{name} of this iteration was truncated at {most} MiB: {cut} more bytes were not stored")
        })
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => BufWriter::new(self.files.append(self.name)?),
        };
        Ok(self.file.insert(file))
    }

    fn report_failure(&mut self, result: io::Result<()>) -> Option<String> {
        result.err().map(|error| {
            self.failed = true;
            format!("the transcript of this iteration is incomplete: {error}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_store::Disk;

    #[test]
    fn what_was_not_stored_is_reported_and_written_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let files = IterationFiles::new(Disk::default(), &root, root.join("iteration"));
        let mut transcript = Transcript::new(files.clone());
        transcript.append(&Event::Text { text: "first".into() });
        assert_eq!(Transcript::new(files).finish(), None);
        transcript.count_skipped(7);
        let warning = transcript.finish().unwrap();
        assert!(
            warning.starts_with("transcript.jsonl of this iteration was truncated"),
            "{warning}"
        );
        assert!(warning.ends_with("7 more bytes were not stored"), "{warning}");
        let text = std::fs::read_to_string(root.join("iteration/transcript.jsonl")).unwrap();
        assert!(text.ends_with("{\"type\":\"cut\",\"bytes\":7}\n"), "{text}");
    }
}
