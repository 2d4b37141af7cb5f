//! Files of a job that are read and written whole.

use std::io;
use std::path::Path;

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, replace_file};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::JobError;

/// Larger than any plan, record or ledger of a million trials.
const MAX_FILE: usize = 1 << 30;

pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, JobError> {
    match read_file(path, MAX_FILE, SymlinkPolicy::Follow) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(JobError::io("read", path)(io::Error::other(error.to_string()))),
    }
}

pub(super) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, JobError> {
    serde_json::from_slice(bytes)
        .map_err(|error| JobError::Damaged { path: path.to_owned(), message: error.to_string() })
}

pub(super) fn write_json(path: &Path, value: &impl Serialize, base: &Path) -> Result<(), JobError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| JobError::io("write", path)(io::Error::other(error)))?;
    bytes.push(b'\n');
    replace_file(path, &bytes, base).map_err(|error| JobError::io("write", path)(error.into()))
}
