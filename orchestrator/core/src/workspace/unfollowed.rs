//! Reading and writing files where an agent may put a link, a pipe or a device at any moment.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::at::{self, Stamp};
use super::put_back::make_folders;

/// Whether the last part of a path may be a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It is the user's, who may have put one there.
    Follow,
    /// It is not followed.
    Refuse,
}

/// Reads a regular file of at most `limit` bytes, without waiting for anybody.
///
/// # Errors
/// It is none, is larger, or cannot be read.
pub fn read_file(path: &Path, limit: usize, links: Links) -> io::Result<Vec<u8>> {
    let flags = match links {
        Links::Follow => at::file_flags(),
        Links::Refuse => at::file_flags() | OFlags::NOFOLLOW,
    };
    at::read_bounded(&rustix::fs::open(path, flags, Mode::empty())?, limit)
}

/// Writes a file whose absolute path has no link in it, in place; makes it and the folders above it if
/// they are not there.
///
/// # Errors
/// A part of the path is a link, what is there is no regular file, or it cannot be written.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let folder = make_folders(parent, None)?;
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&folder, name, flags, Mode::from(0o666))?;
    if Stamp::of(&fd)?.kind() != FileType::RegularFile {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = File::from(fd);
    file.set_len(0)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn neither_goes_where_a_link_leads() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir(root.join("other")).unwrap();
        fs::write(root.join("other/file"), "theirs").unwrap();
        symlink("other", root.join("folder")).unwrap();
        symlink("other/file", root.join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), 0o600.into()).unwrap();
        for path in ["link", "folder/file", "pipe", "other"] {
            assert!(write_file(&root.join(path), b"ours").is_err(), "{path}");
        }
        assert_eq!(fs::read(root.join("other/file")).unwrap(), b"theirs");
        let read = |path: &str, links| read_file(&root.join(path), 6, links);
        assert_eq!(read("link", Links::Follow).unwrap(), b"theirs");
        assert!(read("link", Links::Refuse).is_err());
        for path in ["pipe", "other", "none", "/dev/zero"] {
            assert!(read(path, Links::Follow).is_err(), "{path}");
        }
        assert!(read_file(&root.join("other/file"), 5, Links::Refuse).is_err(), "too large");
        write_file(&root.join("new/folder/file"), b"a longer text").unwrap();
        write_file(&root.join("new/folder/file"), b"short").unwrap();
        assert_eq!(fs::read(root.join("new/folder/file")).unwrap(), b"short");
    }
}
