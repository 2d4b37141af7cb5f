//! Files that commands write for people, only where nothing is yet.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use ralph_orchestrator_assembly::error::CommandError;

use crate::output_place::{create_folder, folder_of};

/// Writes a file that is not there, durably, with the folders above it. Returns whether it was not.
pub fn create_new(path: &Path, text: &str) -> Result<bool, CommandError> {
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", path.display()));
    let place = create_folder(folder_of(path))?.join(path.file_name().unwrap_or_default());
    let mut file = match OpenOptions::new().write(true).create_new(true).open(place) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(true)
}
