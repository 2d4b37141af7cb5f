//! Reads text files that others wrote.

use std::io;
use std::path::Path;

use ralph_orchestrator_safe_fs::{ReadError, SymlinkPolicy, read_file};

/// Why a file could not be taken as text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextFileError {
    #[error("there is no such file")]
    Missing,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {} bytes, the most that is read", .0)]
    TooLarge(usize),
    #[error("it is not UTF-8: byte {offset} is 0x{byte:02x}")]
    NotUtf8 {
        /// How many bytes before it are fine.
        offset: usize,
        /// The first bad byte.
        byte: u8,
        /// The text with a substitute for each bad byte; the same up to `offset`.
        text: String,
    },
    #[error("it cannot be read: {0}")]
    Io(io::Error),
}

/// Reads a regular file of at most `limit` bytes. Does not wait for the other end of a pipe.
pub(crate) fn read(path: &Path, limit: usize) -> Result<String, TextFileError> {
    decode(read_file(path, limit, SymlinkPolicy::Follow))
}

/// Returns what was read as text.
pub(crate) fn decode(read: Result<Vec<u8>, ReadError>) -> Result<String, TextFileError> {
    let bytes = read.map_err(|error| match error {
        error if error.is_not_found() => TextFileError::Missing,
        ReadError::NotRegular => TextFileError::NotAFile,
        ReadError::TooLarge { limit } => TextFileError::TooLarge(limit),
        ReadError::Io(error) => TextFileError::Io(error),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        TextFileError::NotUtf8 {
            offset,
            byte: error.as_bytes().get(offset).copied().unwrap_or_default(),
            text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    })
}
