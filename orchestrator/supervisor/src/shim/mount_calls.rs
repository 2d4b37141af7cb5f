//! Mounts that are made detached and attached afterwards.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::start_failure::{StartFailure, Step as _};
use crate::step::StepSubject;

pub(super) const NO_SUID: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;
pub(super) const NO_DEV: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV;
pub(super) const NO_EXEC: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOEXEC;
pub(super) const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;

pub(super) type Done = Result<(), StartFailure>;

/// Clones a file or a folder with everything that is mounted beneath it.
pub(super) fn clone_tree(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
}

pub(super) fn new_file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, StartFailure> {
    let make = || {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            if value.is_empty() {
                fsconfig_set_flag(&context, *key)?;
            } else {
                fsconfig_set_string(&context, *key, *value)?;
            }
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    make().step(StepSubject::Kernel, || format!("make a new file system `{kind}`"))
}

/// Makes a `/proc` of the pid namespace of this process.
pub(super) fn new_proc() -> Result<OwnedFd, StartFailure> {
    new_file_system("proc", &[], NO_SUID | NO_DEV | NO_EXEC)
}

/// Attaches a mount at a path that exists, and that no symlink leads to.
pub(super) fn attach(tree: &OwnedFd, target: &Path) -> Done {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    open_path(target)
        .and_then(|point| move_mount(tree, "", point, "", flags))
        .step(StepSubject::Path, || format!("mount at `{}`", target.display()))
}

/// Opens a path without symlinks in it, to name what is there.
pub(super) fn open_path(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
