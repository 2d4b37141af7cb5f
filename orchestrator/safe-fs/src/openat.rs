//! Opens files and folders without following links, unless a function says so.

use std::path::{Component, Path};

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::fingerprint::FileFingerprint;

/// Opens a folder; links in the path are followed.
///
/// # Errors
/// Returns the error of the system.
pub fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, list_flags(), Mode::empty())
}

/// Opens a folder that is not a link itself.
///
/// # Errors
/// Returns the error of the system.
pub fn open_folder_nofollow(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, list_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens a folder within a folder, if it is one and not a link.
///
/// # Errors
/// Returns the error of the system.
pub fn open_subfolder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, list_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens for reading what is thought to be a file in a folder. Never waits, should it have become a pipe
/// meanwhile.
///
/// # Errors
/// Returns the error of the system.
pub fn open_file_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name, read_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens for reading what is thought to be a file; links in the path are followed.
///
/// # Errors
/// Returns the error of the system.
pub fn open_file(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, read_flags(), Mode::empty())
}

/// Opens an absolute path of which no part is a link: neither the last nor one on the way.
///
/// # Errors
/// Returns `LOOP` if there is a link, and otherwise the error of the system.
pub fn open_no_symlinks(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
            // An old kernel, or a filter of system calls that does not know this one.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    open_by_components(path, flags)
}

/// Does the same one component after the other.
fn open_by_components(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    if parts.next() != Some(Component::RootDir) {
        return Err(Errno::INVAL);
    }
    let mut folder = rustix::fs::openat(CWD, "/", path_flags(), Mode::empty())?;
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::INVAL) };
        let flags = if parts.peek().is_some() { path_flags() } else { flags };
        folder = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| loop_if_link(error, &folder, name.as_encoded_bytes()))?;
    }
    Ok(folder)
}

/// Opens the folder with this name in a folder, if it is not a link; creates it if there is none.
///
/// # Errors
/// Returns the error of the system.
pub fn open_or_create_subfolder(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let open = || {
        rustix::fs::openat(parent, name, path_flags() | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| loop_if_link(error, parent, name))
    };
    match open() {
        Err(Errno::NOENT) => match rustix::fs::mkdirat(parent, name, Mode::from(0o777)) {
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => Err(error),
        },
        opened => opened,
    }
}

/// Returns `LOOP` for a link that had to be a folder, which the system reports as `NOTDIR`.
fn loop_if_link(error: Errno, folder: &OwnedFd, name: &[u8]) -> Errno {
    let is_link = || {
        FileFingerprint::from_name(folder.as_fd(), name)
            .is_ok_and(|found| found.file_type() == FileType::Symlink)
    };
    if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
}

/// Returns the flags to pass through a folder, for which no right to list it is needed.
#[must_use]
pub fn path_flags() -> OFlags {
    #[cfg(target_os = "linux")]
    let kind = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let kind = OFlags::RDONLY;
    kind | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Returns the flags to read what is thought to be a file, without waiting for the other end of a pipe.
#[must_use]
pub fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY
}

/// Returns the flags to list a folder.
#[must_use]
pub fn list_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Returns the target of a link, as it is written.
///
/// # Errors
/// Returns the error of the system.
pub fn read_link_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(folder, name, Vec::new()).map(std::ffi::CString::into_bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_part_of_a_path_may_be_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "x").unwrap();
        symlink("a", root.join("folder")).unwrap();
        symlink("file", root.join("a/b/link")).unwrap();
        symlink("/proc/self/fd", root.join("magic")).unwrap();
        for (path, expected) in [
            ("a/b/file", Ok(())),
            ("a/b/link", Err(Errno::LOOP)),
            ("folder/b/file", Err(Errno::LOOP)),
            ("magic/0", Err(Errno::LOOP)),
            ("a/b/none", Err(Errno::NOENT)),
            ("a/none/file", Err(Errno::NOENT)),
            ("a/b/file/x", Err(Errno::NOTDIR)),
        ] {
            let path = root.join(path);
            let flags = read_flags();
            assert_eq!(open_no_symlinks(&path, read_flags()).map(drop), expected, "{path:?}");
            assert_eq!(open_by_components(&path, flags).map(drop), expected, "{path:?}, by steps");
        }
        assert_eq!(open_by_components(Path::new("a"), read_flags()).map(drop), Err(Errno::INVAL));
        let top = open_no_symlinks(&root, path_flags()).unwrap();
        open_or_create_subfolder(&top, b"new").unwrap();
        open_or_create_subfolder(&top, b"a").unwrap();
        assert_eq!(open_or_create_subfolder(&top, b"folder").map(drop), Err(Errno::LOOP));
        assert!(root.join("new").is_dir());
    }
}
