//! Pid 1 of a root or a view.

use std::os::fd::OwnedFd;

use rustix::process::Pid;

/// Pid 1 of a root or a view, which lives until nothing is left inside.
pub(super) struct NamespaceInit {
    pub(super) pid: Pid,
    /// Closing it makes init exit when it has no child any more.
    pub(super) lifeline: OwnedFd,
}
