//! Files of the workspace, opened beneath it without following a link.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};
use rustix::io::Errno;

use crate::error::{GitError, Result};
use crate::path::RepoPath;

/// The workspace's folder, held open.
pub(crate) struct WorkspaceFiles {
    root: OwnedFd,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A regular file, its size in bytes, and its permission bits.
    Regular {
        size: u64,
        mode: u32,
    },
    Symlink,
    Folder,
    /// A pipe, socket or device.
    Special,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl WorkspaceFiles {
    pub(crate) fn open(workspace: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(workspace, flags, Mode::empty());
        Ok(Self { root: root.map_err(|error| GitError::io(workspace, error))? })
    }

    /// Returns what is at a path, if it exists and no folder on the way is a link.
    pub(crate) fn entry(&self, path: &RepoPath) -> Result<Option<EntryKind>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let stat = match openat2(&self.root, path.as_path(), flags, Mode::empty(), BENEATH) {
            Ok(file) => fstat(&file),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                return Ok(None);
            }
            // A folder that may not be searched: what the path itself says is enough.
            Err(Errno::ACCESS) => statat(&self.root, path.as_path(), AtFlags::SYMLINK_NOFOLLOW),
            Err(error) => return Err(GitError::io(path.as_path(), error)),
        };
        let stat = stat.map_err(|error| GitError::io(path.as_path(), error))?;
        Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::Regular {
                size: u64::try_from(stat.st_size).unwrap_or(u64::MAX),
                mode: stat.st_mode & 0o7777,
            },
            FileType::Symlink => EntryKind::Symlink,
            FileType::Directory => EntryKind::Folder,
            _ => EntryKind::Special,
        }))
    }

    /// Opens a regular file for reading; nothing else is opened, and no pipe is waited for.
    pub(crate) fn open_regular(&self, path: &RepoPath) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat2(&self.root, path.as_path(), flags, Mode::empty(), BENEATH)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file"));
        }
        Ok(File::from(file))
    }

    /// Opens a folder, to list it.
    pub(crate) fn open_folder(&self, path: &RepoPath) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat2(&self.root, path.as_path(), flags, Mode::empty(), BENEATH)?)
    }
}
