//! Bounded reads of regular files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::fingerprint::FileFingerprint;
use crate::openat;

const BUFFER: usize = 16 * 1024;

/// Why a file cannot be read whole.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is a folder, a pipe, a socket or a device.
    #[error("not a regular file")]
    NotRegular,
    /// It is larger than the limit.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadError {
    /// Whether there is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Errno> for ReadError {
    fn from(error: Errno) -> Self {
        match error {
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::NotRegular,
            other => Self::Io(other.into()),
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// Whether the last part of a path may be a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// It is the user's, who may have put one there.
    Follow,
    /// It is not followed.
    Refuse,
}

/// Opens a regular file with these options. Never waits, whatever has its name.
///
/// # Errors
/// Returns an error if it is not a regular file or cannot be opened.
pub fn open_regular(
    path: &Path,
    options: &OpenOptions,
    links: SymlinkPolicy,
) -> Result<File, ReadError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = if links == SymlinkPolicy::Refuse { flags | OFlags::NOFOLLOW } else { flags };
    let file =
        options.clone().custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
            Errno::from_io_error(&error).map_or(ReadError::Io(error), ReadError::from)
        })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ReadError::NotRegular) }
}

/// Reads a regular file of at most `limit` bytes, without waiting for the other end of a pipe.
///
/// # Errors
/// Returns an error if it is not a regular file, is larger, or cannot be read.
pub fn read_file(path: &Path, limit: usize, links: SymlinkPolicy) -> Result<Vec<u8>, ReadError> {
    read_bounded(open_regular(path, OpenOptions::new().read(true), links)?, limit)
}

/// Reads a regular file of at most `limit` bytes, links followed; `None` if there is none.
///
/// # Errors
/// Returns an error if it is not a regular file, is larger, or cannot be read.
pub fn read_if_exists(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
    let fd = match openat::open_file(path) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    read_bounded(&fd, limit).map(Some)
}

/// Reads an open regular file of at most `limit` bytes, however it grows meanwhile.
///
/// # Errors
/// Returns an error if it is not a regular file, is larger, or cannot be read.
pub fn read_bounded(fd: impl AsFd, limit: usize) -> Result<Vec<u8>, ReadError> {
    let fingerprint = FileFingerprint::from_fd(&fd)?;
    if fingerprint.file_type() != FileType::RegularFile {
        return Err(ReadError::NotRegular);
    }
    let size = usize::try_from(fingerprint.size).unwrap_or(limit);
    let mut bytes = Vec::with_capacity(size.min(limit));
    let mut buffer = [0_u8; BUFFER];
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut buffer))?;
        let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else {
            return Ok(bytes);
        };
        if bytes.len() + part.len() > limit {
            return Err(ReadError::TooLarge { limit });
        }
        bytes.extend_from_slice(part);
    }
}
