//! What an iteration said and changed, and what was decided about it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_core::machine::Record;
use ralph_orchestrator_core::store::RunReader;
use ralph_orchestrator_web::SourceError;
use serde_json::{Value, json};

use super::records::object;
use super::{LocatedRun, refused};
use crate::commands::log::transcript::describe;
use crate::commands::{block_on, diff};
use crate::context::variables;
use crate::git::{StoredRepository, blocking};

/// Of a longer transcript the end is shown, in bytes.
const LONGEST_TRANSCRIPT: u64 = 8 * 1024 * 1024;
/// Events of a transcript that are shown, the newest.
const MOST_EVENTS: usize = 2000;
/// Bytes of a patch that are shown.
const LONGEST_PATCH: usize = 1024 * 1024;

/// Returns what the agent said and did, as `log N` prints it.
pub(super) fn transcript(located: &LocatedRun, number: u64) -> Result<Value, SourceError> {
    let folder = located.state_dir.layout.iteration(&located.run, number);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            SourceError::NotFound(format!("there is no transcript of iteration {number}"))
        }
        _ => SourceError::Failed(format!("cannot read the transcript: {error}")),
    };
    let mut file = File::open(folder.join("transcript.jsonl")).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let begin = len.saturating_sub(LONGEST_TRANSCRIPT);
    file.seek(SeekFrom::Start(begin)).map_err(failed)?;
    let mut reader = BufReader::new(file);
    let (mut lines, mut line) = (VecDeque::new(), Vec::new());
    let mut is_truncated = begin > 0;
    if begin > 0 {
        reader.read_until(b'\n', &mut line).map_err(failed)?;
    }
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let event = serde_json::from_slice::<Event>(&line).ok();
        lines.extend(event.and_then(describe));
        if lines.len() > MOST_EVENTS {
            lines.pop_front();
            is_truncated = true;
        }
    }
    Ok(json!({ "lines": lines, "truncated": is_truncated }))
}

/// Returns what it changed, as `diff N --json` prints it.
pub(super) fn diff(located: &LocatedRun, number: u64) -> Result<Value, SourceError> {
    let layout = &located.state_dir.layout;
    let mut reader = RunReader::of_run(layout, &located.run);
    drop(reader.read(|_| {}));
    let found = reader.stored_run();
    let found = found.ok_or_else(|| SourceError::Failed("the run cannot be read".to_owned()))?;
    let workspace = located.state_dir.owner.workspace().unwrap_or_default();
    let compared = block_on(async {
        let stored = StoredRepository::of_run(layout, found, workspace, &variables()).await?;
        blocking(move || diff::compare(&stored, &[number], LONGEST_PATCH)).await?
    });
    let (from, to, changes) = compared.map_err(|error| refused(&error))?;
    Ok(diff::object(&changes, (from, to), true))
}

/// Returns the records of the claims, validations and files of evidence of an iteration.
pub(super) fn evidence(located: &LocatedRun, number: u64) -> Result<Value, SourceError> {
    let mut reader = RunReader::of_run(&located.state_dir.layout, &located.run);
    let mut records = Vec::new();
    let read = reader.read(|entry| {
        let iteration = match &entry.record {
            Record::Claimed { iteration, .. }
            | Record::Validated { iteration, .. }
            | Record::Artefacts { iteration, .. } => *iteration,
            _ => return,
        };
        if iteration == number {
            records.push(object(entry));
        }
    });
    read.map_err(|error| SourceError::Failed(error.to_string()))?;
    Ok(json!({ "records": records }))
}
