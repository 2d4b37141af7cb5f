//! Writes files in place.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::fingerprint::FileFingerprint;
use crate::replace::create_folders;

/// Writes a file whose absolute path has no link in it, in place; creates it and the folders above it if
/// they are missing.
///
/// # Errors
/// Returns an error if a part of the path is a link, what is there is not a regular file, or it cannot
/// be written.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let folder = create_folders(parent, None)?;
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&folder, name, flags, Mode::from(0o666))?;
    if FileFingerprint::from_fd(&fd)?.file_type() != FileType::RegularFile {
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
    use crate::read::{SymlinkPolicy, read_file};

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
        assert_eq!(read("link", SymlinkPolicy::Follow).unwrap(), b"theirs");
        assert!(read("link", SymlinkPolicy::Refuse).is_err());
        for path in ["pipe", "other", "none", "/dev/zero"] {
            assert!(read(path, SymlinkPolicy::Follow).is_err(), "{path}");
        }
        assert!(
            read_file(&root.join("other/file"), 5, SymlinkPolicy::Refuse).is_err(),
            "too large"
        );
        write_file(&root.join("new/folder/file"), b"a longer text").unwrap();
        write_file(&root.join("new/folder/file"), b"short").unwrap();
        assert_eq!(fs::read(root.join("new/folder/file")).unwrap(), b"short");
    }
}
