//! Reading text files that somebody else wrote.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Why a file could not be taken as text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextFileError {
    #[error("there is no such file")]
    Missing,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {} bytes, the most that is read", .0)]
    TooLarge(u64),
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
    Io(#[from] io::Error),
}

/// Reads a regular file of at most `limit` bytes. Does not wait for the other end of a pipe.
pub(crate) fn read(path: &Path, limit: u64) -> Result<String, TextFileError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        rustix::io::Errno::NOENT => TextFileError::Missing,
        // A socket, or a device without a driver.
        rustix::io::Errno::NXIO | rustix::io::Errno::NODEV => TextFileError::NotAFile,
        other => TextFileError::Io(other.into()),
    })?;
    let file = File::from(descriptor);
    if !file.metadata()?.is_file() {
        return Err(TextFileError::NotAFile);
    }
    let mut bytes = Vec::new();
    // One byte more shows that there is more, however the file grew since it was opened.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(TextFileError::TooLarge(limit));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        TextFileError::NotUtf8 {
            offset,
            byte: error.as_bytes().get(offset).copied().unwrap_or_default(),
            text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    })
}
