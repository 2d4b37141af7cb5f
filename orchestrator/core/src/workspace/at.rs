//! Looking at files relative to an open folder, without following links.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::{Component, Path};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, Stat};
use rustix::io::Errno;

/// Bytes of the buffer into which the kernel lists a folder.
const LIST_BUFFER: usize = 64 * 1024;

/// What tells one state of a file from another, as far as its metadata goes. `ctime` is the part
/// that a program cannot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Whether it has more than one name.
    pub(super) shared: bool,
    /// Nanoseconds since 1970.
    pub(super) mtime: i128,
    /// Nanoseconds since 1970.
    pub(super) ctime: i128,
}

impl Stamp {
    fn new(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            mode: stat.st_mode,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            shared: stat.st_nlink > 1,
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether anyone may execute it.
    pub(super) const fn executable(&self) -> bool {
        self.mode & 0o111 != 0
    }

    /// The stamp of an open file.
    pub(super) fn of(fd: impl AsFd) -> Result<Self, Errno> {
        rustix::fs::fstat(fd).map(|stat| Self::new(&stat))
    }

    /// The stamp of a name in a folder; a link's own.
    pub(super) fn at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Self, Errno> {
        rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Self::new(&stat))
    }

    /// The stamp of what has this path; of a link its own.
    pub(super) fn of_link(path: &Path) -> Result<Self, Errno> {
        rustix::fs::lstat(path).map(|stat| Self::new(&stat))
    }

    /// The stamp of what a path leads to; links are followed.
    pub(super) fn of_path(path: &Path) -> Result<Self, Errno> {
        rustix::fs::stat(path).map(|stat| Self::new(&stat))
    }
}

fn nanos(seconds: impl Into<i128>, nanos: impl Into<i128>) -> i128 {
    seconds.into() * 1_000_000_000 + nanos.into()
}

/// The machine's wall clock, in nanoseconds since 1970; the one that `ctime` is taken from.
pub(super) fn wall_clock() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    nanos(now.tv_sec, now.tv_nsec)
}

/// Nanoseconds since the machine started, suspended time included.
pub(super) fn boot_clock() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    nanos(now.tv_sec, now.tv_nsec)
}

/// Opens a folder; links in the path are followed.
pub(super) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, folder_flags(), Mode::empty())
}

/// Opens a folder that is no link itself.
pub(super) fn open_real_folder(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, folder_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens a folder within a folder, if it is one and no link.
pub(super) fn open_subfolder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens for reading what is thought to be a file in a folder. Does not wait for anybody, should it
/// have become a pipe meanwhile.
pub(super) fn open_file(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name, file_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// Like [`open_file`] for a path, in which links are followed.
pub(super) fn open_file_path(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, file_flags(), Mode::empty())
}

/// Opens a path of which no part is a link: neither the last nor one on the way.
///
/// # Errors
/// `LOOP` if there is a link.
pub(super) fn open_without_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
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
    open_by_steps(path, flags)
}

/// The same, one part after the other.
fn open_by_steps(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    if parts.next() != Some(Component::RootDir) {
        return Err(Errno::INVAL);
    }
    let mut folder = rustix::fs::openat(CWD, "/", step_flags(), Mode::empty())?;
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::INVAL) };
        let flags = if parts.peek().is_some() { step_flags() } else { flags };
        folder = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| link_or(error, &folder, name.as_encoded_bytes()))?;
    }
    Ok(folder)
}

/// Opens the folder with this name, which is no link, in a folder; makes it if there is none.
pub(super) fn make_subfolder(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let open = || {
        rustix::fs::openat(parent, name, step_flags() | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| link_or(error, parent, name))
    };
    match open() {
        Err(Errno::NOENT) => match rustix::fs::mkdirat(parent, name, Mode::from(0o777)) {
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => Err(error),
        },
        opened => opened,
    }
}

/// A link that had to be a folder is told as `NOTDIR`.
fn link_or(error: Errno, folder: &OwnedFd, name: &[u8]) -> Errno {
    let is_link =
        || Stamp::at(folder.as_fd(), name).is_ok_and(|stamp| stamp.kind() == FileType::Symlink);
    if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
}

/// To go through a folder no right to list it is needed.
pub(super) fn step_flags() -> OFlags {
    #[cfg(target_os = "linux")]
    let kind = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let kind = OFlags::RDONLY;
    kind | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Flags for reading what is thought to be a file, without waiting for anybody.
pub(super) fn file_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY
}

/// Flags for listing a folder.
pub(super) fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Where a link leads, as it says.
pub(super) fn read_link(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(folder, name, Vec::new()).map(std::ffi::CString::into_bytes)
}

/// A name in a folder.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) bytes: Vec<u8>,
    /// What the folder says it is; `Unknown` on file systems that do not keep it there.
    pub(super) kind: FileType,
}

/// Lists folders.
#[derive(Debug)]
pub(super) struct Lister {
    buffer: Vec<MaybeUninit<u8>>,
}

impl Lister {
    pub(super) fn new() -> Self {
        Self { buffer: vec![MaybeUninit::uninit(); LIST_BUFFER] }
    }

    /// The names in a folder, sorted by their bytes, and whether there are more than `limit`, which
    /// then are left out.
    pub(super) fn list(
        &mut self,
        folder: BorrowedFd<'_>,
        limit: usize,
    ) -> Result<(Vec<Name>, bool), Errno> {
        rustix::fs::seek(folder, SeekFrom::Start(0))?;
        let mut names = Vec::new();
        let mut more = false;
        let mut raw = RawDir::new(folder, &mut self.buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name: &CStr = entry.file_name();
            let bytes = name.to_bytes();
            if bytes == b"." || bytes == b".." {
                continue;
            }
            if names.len() >= limit {
                more = true;
                break;
            }
            names.push(Name { bytes: bytes.to_vec(), kind: entry.file_type() });
        }
        names.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes));
        Ok((names, more))
    }
}

/// Reads a whole file of at most `limit` bytes, links in the path followed; `None` if there is none.
pub(super) fn read_small(path: &Path, limit: usize) -> std::io::Result<Option<Vec<u8>>> {
    let fd = match open_file_path(path) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    read_bounded(&fd, limit).map(Some)
}

/// Reads an open regular file of at most `limit` bytes.
pub(super) fn read_bounded(fd: &OwnedFd, limit: usize) -> std::io::Result<Vec<u8>> {
    let stamp = Stamp::of(fd)?;
    if stamp.kind() != FileType::RegularFile {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(limit).min(limit));
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut buffer))?;
        let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else {
            return Ok(bytes);
        };
        if bytes.len() + part.len() > limit {
            return Err(std::io::Error::other(format!("larger than {limit} bytes")));
        }
        bytes.extend_from_slice(part);
    }
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
            let flags = file_flags();
            assert_eq!(open_without_links(&path, file_flags()).map(drop), expected, "{path:?}");
            assert_eq!(open_by_steps(&path, flags).map(drop), expected, "{path:?}, by steps");
        }
        assert_eq!(open_by_steps(Path::new("a"), file_flags()).map(drop), Err(Errno::INVAL));
        let top = open_without_links(&root, step_flags()).unwrap();
        make_subfolder(&top, b"new").unwrap();
        make_subfolder(&top, b"a").unwrap();
        assert_eq!(make_subfolder(&top, b"folder").map(drop), Err(Errno::LOOP));
        assert!(root.join("new").is_dir());
    }
}
