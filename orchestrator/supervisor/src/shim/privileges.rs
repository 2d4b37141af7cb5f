//! Users, privileges and lifelines of the processes in new namespaces.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::mount_calls::Done;
use super::start_failure::{StartFailure, Step as _};
use super::sys;
use crate::step::StepSubject;

/// A user and a group.
#[derive(Clone, Copy)]
pub(super) struct Ids {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Ids {
    pub(super) fn current() -> Self {
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }
}

/// Maps these ids inside this process's new user namespace to its own outside.
pub(super) fn map_ids(inside: Ids, outside: Ids) -> Done {
    let write = |path: &str, text: String| {
        fs::write(path, text).step(StepSubject::Kernel, || format!("write {path}"))
    };
    // Without this only a privileged process may map a group.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{} {} 1", inside.user, outside.user))?;
    write("/proc/self/gid_map", format!("{} {} 1", inside.group, outside.group))
}

/// Makes the kernel kill this process when its parent, the shim, dies.
pub(super) fn die_with(shim: &OwnedFd) -> Done {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the kernel was asked.
    if sys::has_ended(shim.as_fd())? { Err(StartFailure::Errno(libc::ESRCH)) } else { Ok(()) }
}

/// Drops all capabilities, for good.
pub(super) fn drop_all() -> Done {
    let drop = || {
        gain_none()?;
        // The kernel has fewer than this, and refuses the first that it does not have.
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if rustix::thread::remove_capability_from_bounding_set(one).is_err() {
                break;
            }
        }
        keep(CapabilitySet::empty())
    };
    drop().step(StepSubject::Kernel, || "drop all capabilities".to_owned())
}

/// Drops all capabilities, for good, of a process that can have none: unlike [`drop_all`] it can execute programs that
/// have some, which then go without.
pub(super) fn drop_borrowed() -> Done {
    gain_none()
        .and_then(|()| keep(CapabilitySet::empty()))
        .step(StepSubject::Kernel, || "drop all capabilities".to_owned())
}

/// Drops the capability to mount and to unmount, for good.
pub(super) fn drop_mounting() -> Done {
    let mounting = CapabilitySet::SYS_ADMIN;
    rustix::thread::clear_ambient_capability_set()
        .and_then(|()| rustix::thread::remove_capability_from_bounding_set(mounting))
        .and_then(|()| keep(!mounting))
        .step(StepSubject::Kernel, || "drop CAP_SYS_ADMIN".to_owned())
}

/// Whether this process can mount, and can have its children do without.
pub(super) fn can_mount() -> rustix::io::Result<bool> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP;
    Ok(rustix::thread::capabilities(None)?.effective.contains(needed))
}

fn gain_none() -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()
}

/// Drops all capabilities but these.
fn keep(these: CapabilitySet) -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = rustix::thread::capabilities(None)?;
    let [effective, permitted, inheritable] =
        [effective, permitted, inheritable].map(|set| set & these);
    rustix::thread::set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}
