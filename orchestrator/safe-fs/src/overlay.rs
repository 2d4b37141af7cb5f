//! Layers of the kernel's overlays: what hides a lower one, and how they are removed.
//!
//! All of it is as the mount option `userxattr` has it: then users without privileges make the same as the superuser.

use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::list::DirLister;
use crate::openat;

/// The extended attribute of a folder in whose place nothing of lower layers is seen.
const OPAQUE: &str = "user.overlay.opaque";

/// Creates a whiteout in the folder of a layer: what has this name in lower layers is not seen.
///
/// # Errors
/// Returns `EXIST` if the folder has the name, and otherwise the error of the system.
pub fn create_whiteout(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let no_device = rustix::fs::makedev(0, 0);
    rustix::fs::mknodat(folder, name, FileType::CharacterDevice, Mode::empty(), no_device)
}

/// Makes the folder of a layer opaque: what is in this place in lower layers is not seen.
///
/// # Errors
/// Returns `OPNOTSUPP` if the file system keeps no such attributes, and otherwise the error of the system.
pub fn set_opaque(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsetxattr(folder, OPAQUE, b"y", XattrFlags::empty())
}

/// Whether the folder of a layer is opaque.
#[must_use]
pub fn is_opaque(folder: &Path) -> bool {
    let mut value = [0; 1];
    let read = rustix::fs::lgetxattr(folder, OPAQUE, &mut value);
    read.is_ok() && value == *b"y"
}

/// Whether a file or link has an attribute that an overlay over it obeys: it can make the file vanish there. What cannot be
/// read has none.
#[must_use]
pub fn has_overlay_mark(path: &Path) -> bool {
    // What has more than fits is no file of anybody's work.
    let mut names = [0_u8; 64 * 1024];
    match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(length) => names.get(..length).unwrap_or(&names).split(|byte| *byte == 0).any(|name| {
            name.starts_with(b"user.overlay.") || name.starts_with(b"trusted.overlay.")
        }),
        Err(error) => error == Errno::RANGE,
    }
}

/// Removes a layer or the work folder of an overlay with everything in it, also what the kernel or who wrote it has made
/// inaccessible to its owner. The path is no link beneath another one. Nothing needs to be there.
///
/// # Errors
/// Returns `LOOP` if a folder on the way is a link, and otherwise the error of the system; some of it is left then.
pub fn remove_layer(path: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL);
    };
    match openat::open_no_symlinks(parent, openat::path_flags()) {
        Err(Errno::NOENT) => Ok(()),
        opened => remove_entry(opened?.as_fd(), name.as_bytes(), &mut DirLister::default()),
    }
}

fn remove_entry(parent: BorrowedFd<'_>, name: &[u8], lister: &mut DirLister) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(Errno::NOENT) => return Ok(()),
        removed => return removed,
    }
    let folder =
        rustix::fs::openat(parent, name, openat::path_flags() | OFlags::NOFOLLOW, Mode::empty())?;
    make_accessible(&folder)?;
    let listed = rustix::fs::openat(&folder, ".", openat::list_flags(), Mode::empty())?;
    let (entries, _) = lister.list(listed.as_fd(), usize::MAX)?;
    drop(listed);
    entries.iter().try_for_each(|entry| remove_entry(folder.as_fd(), &entry.bytes, lister))?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Permits the owner to list and to change a folder.
fn make_accessible(folder: &OwnedFd) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    if mode.contains(Mode::RWXU) {
        return Ok(());
    }
    // The only way by a descriptor that was not opened for reading.
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode | Mode::RWXU)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn whiteouts_and_opaque_folders_are_as_the_kernel_knows_them() {
        let temp = tempfile::tempdir().unwrap();
        let folder = openat::open_folder(temp.path()).unwrap();
        create_whiteout(folder.as_fd(), b"gone \xff").unwrap();
        let name = std::ffi::OsStr::from_bytes(b"gone \xff");
        let whiteout = fs::symlink_metadata(temp.path().join(name)).unwrap();
        assert!(whiteout.file_type().is_char_device());
        assert_eq!((whiteout.rdev(), whiteout.mode() & 0o777), (0, 0));
        assert_eq!(create_whiteout(folder.as_fd(), b"gone \xff"), Err(Errno::EXIST));
        set_opaque(folder.as_fd()).unwrap();
        let mut value = [0; 2];
        assert_eq!(rustix::fs::getxattr(temp.path(), OPAQUE, &mut value), Ok(1));
        assert_eq!(value[0], b'y');
        fs::create_dir(temp.path().join("plain")).unwrap();
        assert!(is_opaque(temp.path()) && !is_opaque(&temp.path().join("plain")));
    }

    #[test]
    fn a_layer_is_removed_whatever_its_modes_and_no_link_is_followed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let layer = root.join("layer");
        fs::create_dir_all(layer.join("a/b/c")).unwrap();
        fs::create_dir(root.join("kept")).unwrap();
        fs::write(root.join("kept/file"), "").unwrap();
        fs::write(layer.join("a/b/file"), "").unwrap();
        symlink(root.join("kept"), layer.join("a/link")).unwrap();
        create_whiteout(openat::open_folder(&layer.join("a")).unwrap().as_fd(), b"x").unwrap();
        for closed in ["a/b/c", "a/b", "a"] {
            let none = fs::Permissions::from_mode(0o0);
            fs::set_permissions(layer.join(closed), none).unwrap();
        }
        symlink(&layer, root.join("way")).unwrap();
        assert_eq!(remove_layer(&root.join("way/a")), Err(Errno::LOOP));
        assert!(layer.join("a").exists());
        remove_layer(&layer).unwrap();
        assert!(!layer.exists() && root.join("kept/file").exists());
        remove_layer(&layer).unwrap();
        remove_layer(&layer.join("none")).unwrap();
    }
}
