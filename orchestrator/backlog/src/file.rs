//! The backlog's file, in a folder where an agent can write: opened without following links,
//! bounded in size, replaced atomically, edited by one process at a time.
//!
//! Editors of this crate exclude each other by a lock on the file; the folder may be the workspace,
//! which the engine locks for each run. Other programs do not know the lock, so the file is compared once more directly before it is replaced; what is written between
//! that and the rename is lost, as with any program that saves a whole file.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use ralph_orchestrator_safe_fs::{FileFingerprint, ReadError, move_aside, read_bounded};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::BacklogError;

/// The largest backlog that is read, in bytes.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How long another editor is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long to pause between two tries to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// How often an edit is made again because the file changed underneath.
const EDIT_TRIES: usize = 8;
/// The mode of a file that did not exist, before the umask.
const NEW_MODE: u32 = 0o666;

/// Where a backlog's file is.
#[derive(Clone, Debug)]
pub struct BacklogFile {
    root: PathBuf,
    relative: PathBuf,
    #[cfg(test)]
    pub(crate) hook: Option<WriteHook>,
}

/// Called before each step of a replacement.
#[cfg(test)]
pub(crate) type WriteHook = fn(WriteStep) -> io::Result<()>;

/// A step of replacing the file, after which a crash may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteStep {
    Create,
    Write,
    SyncContent,
    Compare,
    Rename,
    SyncFolder,
}

/// What was read, and what tells whether it has changed since.
struct FileVersion {
    bytes: Vec<u8>,
    fingerprint: FileFingerprint,
}

impl BacklogFile {
    /// Names the file `relative` inside the folder `root`. Links are followed in `root` only.
    ///
    /// # Errors
    /// [`BacklogError::UnsafePath`] if `relative` is absolute, empty or has `..` in it.
    pub fn new(root: &Path, relative: &Path) -> Result<Self, BacklogError> {
        let is_inside = relative
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_inside || relative.file_name().is_none() {
            return Err(BacklogError::UnsafePath {
                path: relative.to_owned(),
                problem: "the path is not inside the workspace",
            });
        }
        Ok(Self {
            root: root.to_owned(),
            relative: relative.components().filter(|p| *p != Component::CurDir).collect(),
            #[cfg(test)]
            hook: None,
        })
    }

    /// Returns the path as messages show it, relative to the workspace.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.relative
    }

    /// Returns the whole path, with the links of the root resolved.
    #[cfg(feature = "sqlite")]
    pub(crate) fn real_path(&self) -> Result<PathBuf, BacklogError> {
        let root = self.root.canonicalize();
        root.map(|root| root.join(&self.relative)).map_err(|e| self.io("find the workspace of", e))
    }

    pub(crate) fn io(&self, action: &'static str, source: io::Error) -> BacklogError {
        if source.kind() == io::ErrorKind::NotFound {
            return BacklogError::NotFound { path: self.relative.clone() };
        }
        BacklogError::Io { path: self.relative.clone(), action, source }
    }

    fn unsafe_path(&self, problem: &'static str) -> BacklogError {
        BacklogError::UnsafePath { path: self.relative.clone(), problem }
    }

    fn name(&self) -> &std::ffi::OsStr {
        self.relative.file_name().unwrap_or_default()
    }

    fn temporary_name(&self) -> std::ffi::OsString {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.name());
        name.push(".ralph-tmp");
        name
    }

    /// Opens the folder that has the file, part by part.
    fn open_folder(&self) -> Result<OwnedFd, BacklogError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::openat(CWD, &self.root, flags, Mode::empty())
            .map_err(|e| self.io("open the workspace of", e.into()))?;
        for part in self.relative.parent().unwrap_or_else(|| Path::new("")) {
            let opened = rustix::fs::openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty());
            folder = opened.map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => {
                    self.unsafe_path("a part of the path is a link or no folder")
                }
                error => self.io("open the folder of", error.into()),
            })?;
        }
        Ok(folder)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it does not exist, is a link or no file, is too large, or cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<u8>, BacklogError> {
        self.read_in(&self.open_folder()?).map(|version| version.bytes)
    }

    fn read_in(&self, folder: &OwnedFd) -> Result<FileVersion, BacklogError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(folder, self.name(), flags | OFlags::NOCTTY, Mode::empty());
        let file = opened.map_err(|error| match error {
            Errno::LOOP => self.unsafe_path("the file is a link"),
            Errno::NXIO => self.unsafe_path("the file is not a regular file"),
            error => self.io("open", error.into()),
        })?;
        let fingerprint = FileFingerprint::from_fd(&file);
        let fingerprint = fingerprint.map_err(|e| self.io("examine", e.into()))?;
        let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
        let bytes = read_bounded(&file, limit).map_err(|error| match error {
            ReadError::NotRegular => self.unsafe_path("the file is not a regular file"),
            ReadError::TooLarge { .. } => self.too_large(),
            ReadError::Io(error) => self.io("read", error),
        })?;
        Ok(FileVersion { bytes, fingerprint })
    }

    fn too_large(&self) -> BacklogError {
        BacklogError::TooLarge { path: self.relative.clone(), limit: MAX_BYTES }
    }

    /// Returns the fingerprint of what has the file's name now; of a link its own.
    fn current(&self, folder: &OwnedFd) -> Result<FileFingerprint, Errno> {
        FileFingerprint::from_name(folder.as_fd(), self.name().as_bytes())
    }

    /// Makes sure that the file is a regular one and not too large, without opening it.
    #[cfg(feature = "sqlite")]
    pub(crate) fn check_size(&self) -> Result<(), BacklogError> {
        let folder = self.open_folder()?;
        let found = self.current(&folder).map_err(|e| self.io("examine", e.into()))?;
        match found.file_type() {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(self.unsafe_path("the file is a link")),
            _ => return Err(self.unsafe_path("the file is not a regular file")),
        }
        if found.size > MAX_BYTES { Err(self.too_large()) } else { Ok(()) }
    }

    /// Replaces the content by what `edit` makes of it. `edit` returns `None` to leave it, and is
    /// called again if the file changed meanwhile.
    ///
    /// # Errors
    /// What `edit` returns, and what reading and writing meet; the file is then as it was.
    pub(crate) fn update<T>(
        &self,
        mut edit: impl FnMut(&[u8]) -> Result<(Option<Vec<u8>>, T), BacklogError>,
    ) -> Result<T, BacklogError> {
        let folder = self.open_folder()?;
        let _lock = self.lock(&folder)?;
        for _ in 0..EDIT_TRIES {
            let version = self.read_in(&folder)?;
            let (content, result) = edit(&version.bytes)?;
            let Some(content) = content else { return Ok(result) };
            if self.replace_in(&folder, &content, Some(&version.fingerprint))? {
                return Ok(result);
            }
        }
        Err(BacklogError::Busy { path: self.relative.clone() })
    }

    /// Replaces whatever has the file's name by `content`, after removing the files whose names
    /// have one of these suffixes.
    pub(crate) fn replace(&self, content: &[u8], remove: &[&str]) -> Result<(), BacklogError> {
        let folder = self.open_folder()?;
        let _lock = self.lock(&folder)?;
        for suffix in remove {
            let mut name = self.name().to_owned();
            name.push(suffix);
            match rustix::fs::unlinkat(&folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(self.io("remove a side file of", error.into())),
            }
        }
        if self.current(&folder).is_ok_and(|now| now.file_type() == FileType::Directory) {
            move_aside(&folder, self.name().as_bytes())
                .map_err(|error| self.io("move a folder out of the place of", error.into()))?;
        }
        self.replace_in(&folder, content, None).map(|_| ())
    }

    /// Waits for the lock on the file, and makes sure that it is still the one that has the name: each
    /// replacement is another file. What cannot be opened is not locked. The lock is released with the
    /// result.
    fn lock(&self, folder: &OwnedFd) -> Result<Option<OwnedFd>, BacklogError> {
        let deadline = Instant::now() + LOCK_WAIT;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let flags = flags | OFlags::NOCTTY;
            let Ok(file) = rustix::fs::openat(folder, self.name(), flags, Mode::empty()) else {
                return Ok(None);
            };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.has_name(folder, &file) => return Ok(Some(file)),
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(BacklogError::Busy { path: self.relative.clone() });
                }
                Err(error) => return Err(self.io("lock", error.into())),
            }
        }
    }

    /// Returns whether an open file is the one that has the name now.
    fn has_name(&self, folder: &OwnedFd, file: &OwnedFd) -> bool {
        let named = rustix::fs::statat(folder, self.name(), AtFlags::SYMLINK_NOFOLLOW);
        let opened = rustix::fs::fstat(file);
        named.is_ok_and(|named| {
            opened
                .is_ok_and(|opened| (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
        })
    }

    /// Returns false, with nothing replaced, if the file is another than `expected`.
    fn replace_in(
        &self,
        folder: &OwnedFd,
        content: &[u8],
        expected: Option<&FileFingerprint>,
    ) -> Result<bool, BacklogError> {
        let temporary = self.temporary_name();
        let written = self.write_temporary(folder, content, expected);
        let outcome = written.and_then(|()| self.rename(folder, expected));
        match outcome {
            Ok(true) => {
                self.reach(WriteStep::SyncFolder)
                    .and_then(|()| Ok(rustix::fs::fsync(folder)?))
                    .map_err(|e| self.io("sync the folder of", e))?;
                Ok(true)
            }
            Ok(false) => {
                // The next write removes it too, should this fail.
                let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
                Ok(false)
            }
            Err(error) => {
                let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
                Err(self.io("write", error))
            }
        }
    }

    fn write_temporary(
        &self,
        folder: &OwnedFd,
        content: &[u8],
        old: Option<&FileFingerprint>,
    ) -> io::Result<()> {
        self.reach(WriteStep::Create)?;
        let temporary = self.temporary_name();
        // What a killed writer left: the lock is held, so it is nobody's.
        match rustix::fs::unlinkat(folder, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(NEW_MODE);
        let fd = rustix::fs::openat(folder, &temporary, flags | OFlags::CLOEXEC, mode)?;
        let existing = match old {
            Some(old) => Some(*old),
            None => self.current(folder).ok().filter(|s| s.file_type() == FileType::RegularFile),
        };
        if let Some(existing) = existing {
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(existing.mode & 0o7777))?;
        }
        let mut file = File::from(fd);
        self.reach(WriteStep::Write)?;
        file.write_all(content)?;
        self.reach(WriteStep::SyncContent)?;
        file.sync_all()
    }

    fn rename(&self, folder: &OwnedFd, expected: Option<&FileFingerprint>) -> io::Result<bool> {
        self.reach(WriteStep::Compare)?;
        if expected.is_some_and(|expected| self.current(folder).as_ref() != Ok(expected)) {
            return Ok(false);
        }
        self.reach(WriteStep::Rename)?;
        rustix::fs::renameat(folder, self.temporary_name(), folder, self.name())?;
        Ok(true)
    }

    #[cfg(test)]
    fn reach(&self, step: WriteStep) -> io::Result<()> {
        self.hook.map_or(Ok(()), |hook| hook(step))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests make steps fail")]
    const fn reach(&self, _step: WriteStep) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
