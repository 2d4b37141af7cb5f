//! Reads text files of a task.

use std::io;
use std::path::Path;

use ralph_orchestrator_safe_fs::read_bounded;

use super::problem::TreeError;
use super::tree::{is_plain_file, open_plain_file};

/// Reads a file of UTF-8 text. The path is absolute, and no part of it is a link.
pub(super) fn read_text(path: &Path, limit: usize) -> Result<String, TreeError> {
    let (file, _) = open_plain_file(path)?;
    let bytes = read_bounded(&file, limit).map_err(|error| TreeError::from_read(path, error))?;
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text");
    String::from_utf8(bytes).map_err(|error| TreeError::from_io(path, not_text(error)))
}

/// Reads a file of UTF-8 text; none if there is no file.
pub(super) fn read_text_if_exists(path: &Path, limit: usize) -> Result<Option<String>, TreeError> {
    if is_plain_file(path)? { read_text(path, limit).map(Some) } else { Ok(None) }
}
