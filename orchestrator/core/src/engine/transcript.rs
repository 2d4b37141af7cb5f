//! The record of one iteration: what was sent, what came back.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::Timestamp;

use crate::contract::Event;
use crate::state::{Disk, File, StateError};

/// Most bytes kept of each stream of an iteration.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Writes `transcript.jsonl` and `stderr.log` of an iteration. Trouble with them never ends an
/// iteration: it is told once.
#[derive(Debug)]
pub(super) struct Transcript {
    events: Capped,
    stderr: Capped,
}

impl Transcript {
    pub(super) fn create(disk: &Disk, folder: &Path) -> Result<Self, StateError> {
        Ok(Self {
            events: Capped::create(disk, &folder.join("transcript.jsonl"))?,
            stderr: Capped::create(disk, &folder.join("stderr.log"))?,
        })
    }

    /// Notes an event. Says what went wrong, the first time.
    pub(super) fn note(&mut self, event: &Event) -> Option<String> {
        if let Event::Stderr { text } = event {
            return self.stderr.write(&[text.as_bytes(), b"\n"]);
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

    /// Says in the files what was cut. Says what went wrong, if nothing did before.
    pub(super) fn finish(&mut self) -> Option<String> {
        let events = self.events.finish(|cut| format!("{{\"type\":\"cut\",\"bytes\":{cut}}}\n"));
        let stderr = self.stderr.finish(|cut| format!("[{cut} bytes cut]\n"));
        events.or(stderr)
    }
}

#[derive(Debug)]
struct Capped {
    file: BufWriter<File>,
    written: u64,
    cut: u64,
    broken: bool,
}

impl Capped {
    fn create(disk: &Disk, path: &Path) -> Result<Self, StateError> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let file = disk.open(path, &options).map_err(StateError::io("create", path))?;
        Ok(Self { file: BufWriter::new(file), written: 0, cut: 0, broken: false })
    }

    fn write(&mut self, parts: &[&[u8]]) -> Option<String> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        if self.broken || self.written.saturating_add(len) > LARGEST {
            self.cut = self.cut.saturating_add(len);
            return None;
        }
        self.written = self.written.saturating_add(len);
        let result = parts.iter().try_for_each(|part| self.file.write_all(part));
        self.told(result)
    }

    fn finish(&mut self, cut: impl Fn(u64) -> String) -> Option<String> {
        if self.broken {
            return None;
        }
        let cut = if self.cut > 0 { cut(self.cut) } else { String::new() };
        let result = self.file.write_all(cut.as_bytes()).and_then(|()| self.file.flush());
        self.told(result)
    }

    fn told(&mut self, result: std::io::Result<()>) -> Option<String> {
        result.err().map(|error| {
            self.broken = true;
            format!("the transcript of this iteration is incomplete: {error}")
        })
    }
}
