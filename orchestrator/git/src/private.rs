//! The orchestrator's own folder: a git directory whose configuration no agent writes, and small
//! records of what was begun.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{GitError, Result};

/// The attributes of the private git directory. They have precedence over every `.gitattributes`:
/// bytes are stored and restored as they are, and no filter or diff driver is ever looked up.
pub(crate) const ATTRIBUTES: &str =
    "* -text !eol -ident -filter !working-tree-encoding !diff !merge\n";

/// The largest record that is read back, in bytes.
const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// A folder outside the workspace, for one run.
#[derive(Debug, Clone)]
pub(crate) struct PrivateFolder {
    root: PathBuf,
    /// Device and number of the folder that was made or found.
    id: (u64, u64),
}

/// Holds the private folder until it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateLock {
    file: File,
}

impl Drop for PrivateLock {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread has just forked holds the open file,
        // and with it the lock, until it executes its program. If this fails, closing it is left.
        let _ = self.file.unlock();
    }
}

impl PrivateFolder {
    /// Creates the folder, unless it exists.
    pub(crate) fn create(root: &Path, workspace: &Path) -> Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(root).map_err(|error| GitError::io(root, error))?;
        let id = identify(root)?;
        let root = root.canonicalize().map_err(|error| GitError::io(root, error))?;
        if root.starts_with(workspace) {
            return Err(GitError::PrivateFolderInWorkspace(root));
        }
        let folder = Self { root, id };
        for inner in [folder.home(), folder.git_dir().join("info")] {
            builder.create(&inner).map_err(|error| GitError::io(&inner, error))?;
        }
        Ok(folder)
    }

    pub(crate) fn git_dir(&self) -> PathBuf {
        self.root.join("git")
    }

    /// An empty home, so that no configuration below the user's home is read.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where the index of a real commit is prepared.
    pub(crate) fn commit_index(&self) -> PathBuf {
        self.root.join("commit-index")
    }

    /// Where the tree of a rollback is prepared.
    pub(crate) fn rollback_index(&self) -> PathBuf {
        self.root.join("rollback-index")
    }

    /// Locks the folder, and removes locks that killed processes of git left in it.
    pub(crate) fn lock(&self) -> Result<PrivateLock> {
        if identify(&self.root)? != self.id {
            return Err(GitError::PrivateFolderReplaced(self.root.clone()));
        }
        let path = self.root.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| GitError::io(&path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(GitError::Busy(self.root.clone())),
            Err(TryLockError::Error(error)) => return Err(GitError::io(path, error)),
        }
        let lock = PrivateLock { file };
        for stale in [
            self.git_dir().join("index.lock"),
            self.git_dir().join("config.lock"),
            self.git_dir().join("HEAD.lock"),
            self.root.join("commit-index.lock"),
            self.root.join("rollback-index.lock"),
        ] {
            remove_if_there(&stale)?;
        }
        Ok(lock)
    }

    /// Writes the attributes of the private git directory, unless they are there.
    pub(crate) fn write_attributes(&self) -> Result<()> {
        self.write_attributes_with(&[])
    }

    /// Writes them with further lines, until they are written without.
    pub(crate) fn write_attributes_with(&self, more: &[u8]) -> Result<()> {
        let path = self.git_dir().join("info").join("attributes");
        match fs::read_to_string(&path) {
            Ok(text) if text == ATTRIBUTES && more.is_empty() => Ok(()),
            _ => write_atomically(&path, &[ATTRIBUTES.as_bytes(), more].concat()),
        }
    }

    /// Writes a program, and returns where it is.
    pub(crate) fn write_program(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.root.join(name);
        write_atomically(&path, content)?;
        let executable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&path, executable).map_err(|error| GitError::io(&path, error))?;
        Ok(path)
    }

    /// Reads a record, if it was written.
    pub(crate) fn read_record<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        read_record(&self.root.join(name))
    }

    /// Writes a record, durably and at once.
    pub(crate) fn write_record<T: Serialize>(&self, name: &str, record: &T) -> Result<()> {
        write_record(&self.root.join(name), record)
    }

    /// Removes a record, if there is one.
    pub(crate) fn remove_record(&self, name: &str) -> Result<()> {
        remove_if_there(&self.root.join(name))
    }
}

/// Reads a record, if it was written.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(GitError::io(path, error)),
    };
    serde_json::from_reader(std::io::Read::take(file, MAX_RECORD))
        .map(Some)
        .map_err(|source| GitError::DamagedFile { path: path.to_owned(), source })
}

/// Returns the device and the number of a folder. A link leads to a folder of somebody else.
fn identify(folder: &Path) -> Result<(u64, u64)> {
    let there = fs::symlink_metadata(folder).map_err(|error| GitError::io(folder, error))?;
    match there.is_dir() {
        true => Ok((there.dev(), there.ino())),
        false => Err(GitError::PrivateFolderReplaced(folder.to_owned())),
    }
}

/// Writes a record, durably and at once.
pub(crate) fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<()> {
    let bytes = serde_json::to_vec(record)
        .map_err(|source| GitError::DamagedFile { path: path.to_owned(), source })?;
    write_atomically(path, &bytes)
}

/// Removes a file, if there is one.
pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GitError::io(path, error)),
    }
}

/// Writes a file beside its final name, syncs it, renames it, and syncs the folder.
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|error| GitError::io(path, error))
}
