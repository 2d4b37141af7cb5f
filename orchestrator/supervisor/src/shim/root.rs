//! The namespaces of a root.

use rustix::thread::UnshareFlags;

use super::mount_calls::Done;
use super::mounts::make_root;
use super::privileges::{Ids, map_ids};
use super::start_failure::Step as _;
use super::sys;
use crate::root::plan::RootPlan;
use crate::root::{Network, RootUser};
use crate::step::StepSubject;

/// Moves this process, and for pids its children, to new namespaces.
pub(super) fn enter_namespaces(plan: &RootPlan) -> Done {
    let outside = Ids::current();
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    if plan.network == Network::None {
        flags |= UnshareFlags::NEWNET;
    }
    sys::unshare(flags).step(StepSubject::Kernel, || "make new namespaces".to_owned())?;
    let inside = match plan.user {
        RootUser::Caller => outside,
        RootUser::Root => Ids { user: 0, group: 0 },
    };
    map_ids(inside, outside)
}

/// Makes the root, from pid 1 inside.
pub(super) fn prepare(plan: &RootPlan) -> Done {
    make_root(plan)?;
    let hostname = plan.hostname.as_encoded_bytes();
    rustix::system::sethostname(hostname)
        .step(StepSubject::Kernel, || "set the hostname".to_owned())?;
    if plan.network == Network::None {
        sys::raise_loopback()
            .step(StepSubject::Kernel, || "raise the loopback interface".to_owned())?;
    }
    Ok(())
}
