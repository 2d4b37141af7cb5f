//! The metadata that tells one state of a file from another.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

/// How long before it was read a file must have changed for its metadata to stand for its content, in
/// nanoseconds. Two writes in the same tick of the file system's clock leave the same metadata; no
/// local file system ticks slower than this.
const CLOCK_MARGIN: i128 = 2_000_000_000;

/// What tells one state of a file from another, as far as its metadata goes. `ctime` is the part
/// that a program cannot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFingerprint {
    /// The device.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// Whether it has more than one name.
    pub is_hard_linked: bool,
    /// The last change of the content, in nanoseconds since 1970.
    pub mtime: i128,
    /// The last change of content or metadata, in nanoseconds since 1970.
    pub ctime: i128,
}

impl FileFingerprint {
    fn from_stat(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            mode: stat.st_mode,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            is_hard_linked: stat.st_nlink > 1,
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns the fingerprint that this metadata amounts to.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.len(),
            is_hard_linked: metadata.nlink() > 1,
            mtime: nanos(metadata.mtime(), metadata.mtime_nsec()),
            ctime: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the fingerprint of an open file.
    ///
    /// # Errors
    /// Returns the error of `fstat`.
    pub fn from_fd(fd: impl AsFd) -> Result<Self, Errno> {
        rustix::fs::fstat(fd).map(|stat| Self::from_stat(&stat))
    }

    /// Returns the fingerprint of a name in a folder; of a link its own.
    ///
    /// # Errors
    /// Returns the error of `fstatat`.
    pub fn from_name(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Self, Errno> {
        rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| Self::from_stat(&stat))
    }

    /// Returns the fingerprint of what has this path; of a link its own.
    ///
    /// # Errors
    /// Returns the error of `lstat`.
    pub fn from_path_nofollow(path: &Path) -> Result<Self, Errno> {
        rustix::fs::lstat(path).map(|stat| Self::from_stat(&stat))
    }

    /// Returns the fingerprint of what a path leads to; links are followed.
    ///
    /// # Errors
    /// Returns the error of `stat`.
    pub fn from_path(path: &Path) -> Result<Self, Errno> {
        rustix::fs::stat(path).map(|stat| Self::from_stat(&stat))
    }

    /// Returns the type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether anyone may execute it.
    #[must_use]
    pub const fn is_executable(&self) -> bool {
        self.mode & 0o111 != 0
    }

    /// Whether a change after the time `started` is bound to leave another fingerprint, on a local file
    /// system.
    #[must_use]
    pub const fn is_trusted(&self, started: i128) -> bool {
        self.ctime + CLOCK_MARGIN <= started
    }
}

fn nanos(seconds: impl Into<i128>, nanos: impl Into<i128>) -> i128 {
    seconds.into() * 1_000_000_000 + nanos.into()
}

/// Returns the machine's wall clock, in nanoseconds since 1970; the one that `ctime` is taken from.
#[must_use]
pub fn wall_clock() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    nanos(now.tv_sec, now.tv_nsec)
}

/// Returns the id of the machine's boot; empty where the system has none.
#[must_use]
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Returns the nanoseconds since the machine started, suspended time included.
#[must_use]
pub fn boot_clock() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    nanos(now.tv_sec, now.tv_nsec)
}
