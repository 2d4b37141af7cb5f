//! The file operations that the state is made of, each in one place, so that tests can make any of
//! them fail.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_safe_fs::{SymlinkPolicy, open_regular, read_file};

use super::error::StateError;

const OWNER_ONLY_DIR: u32 = 0o700;

/// One kind of file operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Opens a file, or creates it.
    Open,
    /// Reads from a file, or lists a folder.
    Read,
    /// Writes some bytes.
    Write,
    /// Syncs what was written.
    Sync,
    /// Changes a file's length.
    Truncate,
    /// Creates a folder and those above it.
    CreateDir,
    /// Renames a file.
    Rename,
    /// Removes a file or folder.
    Remove,
}

/// What to do with an operation.
#[derive(Debug)]
pub enum FaultAction {
    /// Do it.
    Proceed,
    /// Fail without doing it.
    Fail(io::Error),
    /// Write half of the bytes, or do any other operation, and then fail.
    FailAfterwards(io::Error),
    /// Write half of the bytes, and report so many; do any other operation.
    WriteShort,
}

impl FaultAction {
    /// Performs an operation other than a write, or fails.
    pub(super) fn decide<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Proceed | Self::WriteShort => work(),
            Self::Fail(error) => Err(error),
            Self::FailAfterwards(error) => work().and(Err(error)),
        }
    }
}

/// Makes operations fail; for tests.
pub trait FaultInjector: Send + Sync {
    /// Returns what to do with an operation; called before each.
    fn fault_action(&self, operation: FileOperation, path: &Path) -> FaultAction;
}

/// Where file operations go: to the system, the default, or past [`FaultInjector`] on their way there.
#[derive(Clone, Default)]
pub struct Disk(Option<Arc<dyn FaultInjector>>);

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Disk(with faults)" } else { "Disk" })
    }
}

impl Disk {
    /// Creates a disk on which operations fail as the injector decides.
    #[must_use]
    pub fn with_faults(faults: Arc<dyn FaultInjector>) -> Self {
        Self(Some(faults))
    }

    pub(super) fn fault_action(&self, operation: FileOperation, path: &Path) -> FaultAction {
        self.0.as_ref().map_or(FaultAction::Proceed, |faults| faults.fault_action(operation, path))
    }

    pub(super) fn perform<T>(
        &self,
        operation: FileOperation,
        path: &Path,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.fault_action(operation, path).decide(work)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        self.open_with(path, || how.open(path))
    }

    pub(super) fn open_with(
        &self,
        path: &Path,
        how: impl FnOnce() -> io::Result<fs::File>,
    ) -> io::Result<File> {
        let file = self.perform(FileOperation::Open, path, how)?;
        Ok(File { file, path: path.to_owned(), disk: self.clone() })
    }

    /// Opens a regular file, without waiting for anybody.
    pub fn open_regular(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        self.open_with(path, || Ok(open_regular(path, how, SymlinkPolicy::Follow)?))
    }

    /// Reads a regular file.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_at_most(path, usize::MAX)
    }

    /// Reads a regular file of at most `limit` bytes.
    pub(super) fn read_at_most(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        self.perform(FileOperation::Read, path, || {
            Ok(read_file(path, limit, SymlinkPolicy::Follow)?)
        })
    }

    /// Reads a regular file of at most `limit` bytes; `None` if there is none.
    pub fn read_if_exists(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, StateError> {
        match self.read_at_most(path, limit) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StateError::io("read", path)(error)),
        }
    }

    /// Whether there is nothing in a folder, or no such folder.
    pub(super) fn is_empty_dir(&self, path: &Path) -> io::Result<bool> {
        self.perform(FileOperation::Read, path, || match fs::read_dir(path) {
            Ok(mut entries) => entries.next().transpose().map(|first| first.is_none()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        })
    }

    pub(super) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.perform(FileOperation::CreateDir, path, || {
            fs::DirBuilder::new().recursive(true).mode(OWNER_ONLY_DIR).create(path)
        })
    }

    pub(super) fn set_private(&self, path: &Path) -> io::Result<()> {
        self.perform(FileOperation::CreateDir, path, || {
            fs::set_permissions(path, fs::Permissions::from_mode(OWNER_ONLY_DIR))
        })
    }

    pub(super) fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.perform(FileOperation::Sync, path, || fs::File::open(path)?.sync_all())
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.perform(FileOperation::Rename, to, || fs::rename(from, to))
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.perform(FileOperation::Remove, path, || fs::remove_file(path))
    }

    pub(super) fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.perform(FileOperation::Remove, path, || fs::remove_dir_all(path))
    }
}

/// Flags for files that nothing but this program has to do with: a link in the place of one is not
/// followed, and a pipe is not waited for.
pub const fn private_open_flags() -> i32 {
    use rustix::fs::OFlags;
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
    flags.bits().cast_signed()
}

/// An open file.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    path: PathBuf,
    disk: Disk,
}

impl File {
    /// Returns the file itself, for what does not change its content.
    pub const fn inner(&self) -> &fs::File {
        &self.file
    }

    /// Returns the open file.
    pub fn into_inner(self) -> fs::File {
        self.file
    }

    /// Returns the path and the open file.
    pub fn into_parts(self) -> (PathBuf, fs::File) {
        (self.path, self.file)
    }

    pub(super) fn sync_data(&self) -> io::Result<()> {
        self.disk.perform(FileOperation::Sync, &self.path, || self.file.sync_data())
    }

    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.disk.perform(FileOperation::Sync, &self.path, || self.file.sync_all())
    }

    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.perform(FileOperation::Truncate, &self.path, || self.file.set_len(len))
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let half = bytes.get(..bytes.len().div_ceil(2)).unwrap_or_default();
        let mut file = &self.file;
        match self.disk.fault_action(FileOperation::Write, &self.path) {
            FaultAction::Proceed => file.write(bytes),
            FaultAction::WriteShort => file.write(half),
            FaultAction::Fail(error) => Err(error),
            FaultAction::FailAfterwards(error) => file.write_all(half).and(Err(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &File {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut file = &self.file;
        self.disk.perform(FileOperation::Read, &self.path, || file.read(bytes))
    }
}
