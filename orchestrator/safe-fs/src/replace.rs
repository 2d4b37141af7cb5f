//! Replaces files, and creates folders, where an agent may have put anything.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::fingerprint::FileFingerprint;
use crate::openat;

/// How many names are tried to find an unused one.
const CREATE_ATTEMPTS: usize = 16;
/// The mode of a file that was not there.
const MODE: u32 = 0o644;

/// Writes a file in one step, in the place of whatever has its name, and never through a link. Missing
/// folders are created; a link in the place of one beneath `base` is removed.
///
/// # Errors
/// Returns an error if it cannot be written, or if a folder outside of `base` is a link.
pub fn replace_file(file: &Path, bytes: &[u8], base: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(Errno::INVAL);
    };
    let folder = create_folders(parent, Some(base))?;
    let name = name.as_bytes();
    let mode = match FileFingerprint::from_name(folder.as_fd(), name) {
        Ok(there) if there.file_type() == FileType::RegularFile && !there.is_hard_linked => {
            there.mode & 0o777
        }
        Ok(there) if there.file_type() == FileType::Directory => {
            move_aside(&folder, name)?;
            MODE
        }
        // Renaming replaces everything else.
        _ => MODE,
    };
    let (temporary, new) = create_temporary(&folder, name)?;
    let written = write_all(new, bytes, mode)
        .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, name))
        .and_then(|()| sync(&folder));
    if written.is_err() {
        // It may be renamed already.
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
    }
    written
}

/// Removes what has this path, which is no link beneath another one. A folder with something in it gets an unused name.
///
/// # Errors
/// Returns `LOOP` if a folder on the way is a link, and otherwise the error of the system.
pub fn remove_entry(path: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL);
    };
    let folder = openat::open_no_symlinks(parent, openat::path_flags())?;
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => move_aside(&folder, name.as_bytes()),
        removed => removed,
    }
}

/// Opens a folder, and creates it and those above it if they are missing. A link in the place of one
/// beneath `base` is removed first.
///
/// # Errors
/// Returns `LOOP` for any other link, and otherwise the error of the system.
pub fn create_folders(path: &Path, base: Option<&Path>) -> Result<OwnedFd, Errno> {
    if let Ok(folder) = openat::open_no_symlinks(path, openat::path_flags()) {
        return Ok(folder);
    }
    let mut folder = rustix::fs::openat(CWD, "/", openat::path_flags(), Mode::empty())?;
    let mut reached = std::path::PathBuf::from("/");
    for part in path.components() {
        let name = match part {
            Component::RootDir => continue,
            Component::Normal(name) => name,
            _ => return Err(Errno::INVAL),
        };
        let within = base.is_some_and(|base| reached.starts_with(base));
        reached.push(name);
        folder = match openat::open_or_create_subfolder(&folder, name.as_bytes()) {
            Err(Errno::LOOP) if within => {
                rustix::fs::unlinkat(&folder, name, AtFlags::empty())?;
                openat::open_or_create_subfolder(&folder, name.as_bytes())?
            }
            made => made?,
        };
    }
    Ok(folder)
}

/// Removes a folder if it is empty; otherwise gives it an unused name, such as `name.1`.
///
/// # Errors
/// Returns the error of the system, or `EXIST` if all names are used.
pub fn move_aside(parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    if rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok() {
        return Ok(());
    }
    for number in 1..=CREATE_ATTEMPTS {
        let other = [name, format!(".{number}").as_bytes()].concat();
        if FileFingerprint::from_name(parent.as_fd(), &other).is_err() {
            return rustix::fs::renameat(parent, name, parent, other.as_slice());
        }
    }
    Err(Errno::EXIST)
}

/// Creates a file under an unused name.
fn create_temporary(folder: &OwnedFd, name: &[u8]) -> Result<(Vec<u8>, File), Errno> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Another process of the same number may have left some behind.
    for _ in 0..CREATE_ATTEMPTS {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let end = format!(".{}.{number}.tmp", std::process::id());
        let temporary = [b".", name, end.as_bytes()].concat();
        let path = OsStr::from_bytes(&temporary);
        match rustix::fs::openat(folder, path, flags, Mode::from(MODE)) {
            Ok(file) => return Ok((temporary, file.into())),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

fn write_all(mut file: File, bytes: &[u8], mode: u32) -> Result<(), Errno> {
    let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all(bytes).map_err(io)?;
    if mode != MODE {
        rustix::fs::fchmod(&file, Mode::from(mode))?;
    }
    file.sync_all().map_err(io)
}

/// Syncs the entries of a folder, if it can be read.
fn sync(folder: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::openat(folder, ".", openat::list_flags(), Mode::empty()) {
        Ok(folder) => rustix::fs::fsync(folder),
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
    }
}
