//! Files that commands write for people, only where nothing is yet.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::error::CommandError;

/// Writes a file that is not there, durably. Returns whether it was not.
pub(crate) fn create_new(path: &Path, text: &str) -> Result<bool, CommandError> {
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", path.display()));
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(true)
}
