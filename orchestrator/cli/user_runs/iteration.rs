//! What an iteration said and changed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_git::Diff;
use ralph_orchestrator_store::RunReader;

use super::LocatedRun;
use crate::block_on::block_on;
use crate::error::CommandError;
use crate::git::{StoredRepository, blocking};
use crate::story::diff;
use crate::story::transcript::describe;
use crate::user_folders::variables;

/// Of a longer transcript the end is shown, in bytes.
const LONGEST_TRANSCRIPT: u64 = 8 * 1024 * 1024;
/// Events of a transcript that are shown, the newest.
const MOST_EVENTS: usize = 2000;
/// Bytes of a patch that are shown.
const LONGEST_PATCH: usize = 1024 * 1024;

/// What the agent of an iteration said and did.
pub(crate) struct Transcript {
    /// As `log N` prints it.
    pub(crate) lines: VecDeque<String>,
    /// There was more before it.
    pub(crate) is_truncated: bool,
}

impl LocatedRun {
    /// Returns what the agent said and did, the end of it if it is long.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is none; it cannot be read.
    pub(crate) fn transcript(&self, number: u64) -> io::Result<Transcript> {
        self.transcript_end(number, LONGEST_TRANSCRIPT)
    }

    /// Returns how long the transcript is, in bytes; 0 if there is none.
    pub(crate) fn transcript_len(&self, number: u64) -> u64 {
        std::fs::metadata(self.transcript_file(number)).map_or(0, |file| file.len())
    }

    fn transcript_file(&self, number: u64) -> PathBuf {
        self.state_dir.layout.iteration(&self.run, number).join("transcript.jsonl")
    }

    /// Returns the same of so many bytes at the end.
    pub(crate) fn transcript_end(&self, number: u64, longest: u64) -> io::Result<Transcript> {
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

    /// Returns what an iteration changed, or without a number the last one that has a checkpoint: from which to which
    /// iteration, and how they differ. Blocks.
    ///
    /// # Errors
    /// There are no such checkpoints, or git cannot compare them.
    pub(crate) fn diff(&self, number: Option<u64>) -> Result<(u64, u64, Diff), CommandError> {
        let layout = &self.state_dir.layout;
        let mut reader = RunReader::of_run(layout, &self.run);
        drop(reader.read(|_| {}));
        let found = reader.stored_run();
        let found = found.ok_or_else(|| CommandError::internal("the run cannot be read"))?;
        let workspace = self.state_dir.owner.workspace().unwrap_or_default();
        let numbers: Vec<u64> = number.into_iter().collect();
        block_on(async {
            let vars = variables();
            let stored = StoredRepository::of_run(layout, found, workspace, Vec::new(), &vars);
            let stored = stored.await?;
            blocking(move || diff::compare(&stored, &numbers, LONGEST_PATCH)).await?
        })
    }
}
