//! The version of the backlog before the phase that is running, as it is stored.

use ralph_orchestrator_store::SeriesFiles;
use serde::{Deserialize, Serialize};

use crate::error::DriverError;

/// The file with the version of the backlog before the phase that is running.
pub(crate) const BASE: &str = "base";

/// The iteration that may have changed the backlog, or after which a phase did.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Iteration {
    pub(crate) item: String,
    pub(crate) run: String,
    pub(crate) iteration: u64,
}

/// Returns the iteration that is running, or was when the driver was killed, and the version before it.
pub(crate) fn read_base(files: &SeriesFiles) -> Result<Option<(Iteration, Vec<u8>)>, DriverError> {
    let Some(content) = files.read(BASE)? else { return Ok(None) };
    let newline = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
    let (head, rest) = content.split_at(newline);
    let iteration = serde_json::from_slice(head)
        .map_err(|source| DriverError::Encoding { what: "the last iteration", source })?;
    Ok(Some((iteration, rest.get(1..).unwrap_or_default().to_vec())))
}
