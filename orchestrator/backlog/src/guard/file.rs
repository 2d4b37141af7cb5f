//! Guards a file: reads the agent's version, and replaces it by what it has to be.

use super::report::{GuardFinding, GuardReport};
use crate::error::BacklogError;
use crate::file::BacklogFile;
use crate::item::BacklogSnapshot;

/// What a guard makes of a version.
#[derive(Debug)]
pub(crate) struct GuardOutcome {
    pub(crate) findings: Vec<GuardFinding>,
    /// What the file has to have; `None` to leave it.
    pub(crate) content: Option<Vec<u8>>,
}

/// What a guard found, and what the file has now.
#[derive(Debug)]
pub(crate) struct GuardedFile {
    findings: Vec<GuardFinding>,
    /// The agent's version, if it was replaced and could be read.
    replaced: Option<Vec<u8>>,
    current: Vec<u8>,
}

impl GuardedFile {
    /// Returns the report, with the version that the file has now as `parse` reads it.
    pub(crate) fn into_report(
        self,
        parse: impl FnOnce(Vec<u8>) -> Result<BacklogSnapshot, BacklogError>,
    ) -> Result<GuardReport, BacklogError> {
        let Self { findings, replaced, current } = self;
        let is_restored = findings.iter().any(GuardFinding::is_reverted);
        Ok(GuardReport { findings, is_restored, replaced, current: parse(current)? })
    }
}

/// Compares the file, or the reason why it cannot be read, and writes what `compare` wants it to have.
pub(crate) fn guard_file(
    file: &BacklogFile,
    compare: impl Fn(Result<&[u8], String>) -> Result<GuardOutcome, BacklogError>,
) -> Result<GuardedFile, BacklogError> {
    let guarded = file.update(|bytes| {
        let GuardOutcome { findings, content } = compare(Ok(bytes))?;
        let replaced = content.is_some().then(|| bytes.to_vec());
        let current = content.clone().unwrap_or_else(|| bytes.to_vec());
        Ok((content, GuardedFile { findings, replaced, current }))
    });
    match guarded {
        Err(
            error @ (BacklogError::NotFound { .. }
            | BacklogError::UnsafePath { .. }
            | BacklogError::TooLarge { .. }),
        ) => {
            let GuardOutcome { findings, content } = compare(Err(error.to_string()))?;
            let current = content.unwrap_or_default();
            file.replace(&current, &[])?;
            Ok(GuardedFile { findings, replaced: None, current })
        }
        guarded => guarded,
    }
}
