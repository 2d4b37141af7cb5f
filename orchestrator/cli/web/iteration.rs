//! What an iteration said and changed, and what was decided about it.

use std::io;

use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::RunReader;
use ralph_orchestrator_story::diff;
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_web::SourceError;
use serde_json::{Value, json};

use super::records::object;
use super::refused;
use crate::user_runs;

/// Returns what the agent said and did, as `log N` prints it.
pub(super) fn transcript(located: &LocatedRun, number: u64) -> Result<Value, SourceError> {
    let transcript = located.transcript(number).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            SourceError::NotFound(format!("there is no transcript of iteration {number}"))
        }
        _ => SourceError::Failed(format!("cannot read the transcript: {error}")),
    })?;
    Ok(json!({ "lines": transcript.lines, "truncated": transcript.is_truncated }))
}

/// Returns what it changed, as `diff N --json` prints it.
pub(super) fn diff(located: &LocatedRun, number: u64) -> Result<Value, SourceError> {
    let (from, to, changes) =
        user_runs::diff(located, Some(number)).map_err(|error| refused(&error))?;
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
