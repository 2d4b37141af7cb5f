//! The host's file system as a process tree sees it, with other contents at some places.
//!
//! The kernel's overlays and mount namespaces do the work, without a container engine. The tree has the host's files,
//! devices, sockets and network, but at each [`Overlay::target`] it sees the merged layers, and what it writes there
//! lands in [`Overlay::upper`]. On the host nothing is mounted, and no layer changes.
//!
//! A caller without privileges gets a user namespace in which the tree has the caller's own ids, no capability, and no
//! way to any: a setuid program has no effect. Files of other users, and of groups but the caller's first, belong to
//! `nobody` (65534) there: they can be read as before, but not changed. A caller with CAP_SYS_ADMIN gets no such
//! namespace: files keep their owners, and the tree loses only that capability. Neither can unmount anything.
//!
//! The tree has process numbers and a `/proc` of its own, and ends with its process 1. Where the kernel does not permit
//! that `/proc`, as in a container that hides parts of its own, it has those of the host, and ends as any other tree.

mod error;
pub(crate) mod plan;
pub(crate) mod probe;

use std::path::PathBuf;

pub use error::ViewError;

use crate::root::{Mount, MountAccess};

/// The host's file system, seen by a process tree with other contents at some places.
///
/// What the host mounts while the tree runs is seen there as well, beneath what the view puts over it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Folders with merged contents. One may lie beneath another.
    pub overlays: Vec<Overlay>,
    /// Files and folders of the host that appear elsewhere too, over the overlays. A source is always the host's, also
    /// where an overlay covers it; a target must exist in the view.
    pub mounts: Vec<Mount>,
}

impl View {
    /// Mounts these files and folders of the host read-only, but for those that do not exist, and those in an overlay, where what
    /// is written reaches nothing.
    #[must_use]
    pub fn with_read_only(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        for path in paths {
            // The kernel has no path with symlinks.
            let Ok(path) = path.canonicalize() else { continue };
            if !self.overlays.iter().any(|overlay| path.starts_with(&overlay.target)) {
                let access = MountAccess::ReadOnly;
                self.mounts.push(Mount { source: path.clone(), target: path, access });
            }
        }
        self
    }
}

/// A folder whose contents are merged from layers.
///
/// The mode, the owner and the times of a folder are those of its topmost layer, of the target those of the upper folder.
/// Renaming a folder that is in a layer fails with EXDEV, as between file systems: `mv` and its like copy then. Sockets in
/// layers cannot be connected to. Nothing may be mounted beneath a layer on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Where it is mounted: the absolute path, without symlinks, of a folder.
    pub target: PathBuf,
    /// The folders whose contents are merged, top first. The target itself may be one, with its contents on the
    /// host. Attributes and whiteouts are those of `userxattr`, for the superuser, too.
    pub layers: Vec<PathBuf>,
    /// The folder that receives what the tree writes; no other view may use it at the same time.
    pub upper: PathBuf,
    /// An empty folder beside it, in the same mount, that the kernel needs. What is left in it may need
    /// [`remove_layer`](ralph_orchestrator_safe_fs::remove_layer).
    pub work: PathBuf,
}
