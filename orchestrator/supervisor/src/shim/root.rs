//! Starting a leader in a root of its own.
//!
//! ```text
//! shim ─┬─ launcher: new namespaces; gone when the leader runs
//!       ├─ init: pid 1 inside; makes the root, then adopts and reaps
//!       └─ leader: pid 2 inside ──▶ …
//! ```
//!
//! The launcher makes init and the leader its siblings, so the leader is the shim's own child, as without a
//! root: its exit, its signals and its group need no translation. What the leader's descendants leave becomes
//! init's; when init ends, the kernel kills everything inside.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, waitpid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};
use serde::{Deserialize, Serialize};

use super::namespace_init::NamespaceInit;
use super::start_failure::{StartFailure, Step as _};
use super::sys::{self, Parent};
use super::tree::signal;
use super::{BROKEN, DONE, drain_signals, mounts, set_process_name};
use crate::procfs;
use crate::root::StepSubject;
use crate::root::plan::RootPlan;
use crate::root::{Network, RootUser};
use crate::shim::busy::retry_busy;
use crate::wire::Job;

/// What the launcher reports: the pids of init and leader.
type Launched = Result<(i32, i32), StartFailure>;

/// Starts the leader in a root of its own; its streams are those of this process (`own`).
pub(super) fn start(
    job: &Job,
    plan: &RootPlan,
    own: Pid,
) -> Result<(Pid, NamespaceInit), StartFailure> {
    let (held, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    let (reports, report) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(launcher) = sys::fork()? else {
        let launched = launch(job, plan, own, held);
        sys::exit(if send(report, &launched).is_ok() { DONE } else { BROKEN });
    };
    drop((held, report));
    let launched = receive::<Launched>(reports);
    let _ = waitpid(Some(launcher), WaitOptions::empty());
    let pids = launched
        .unwrap_or(Err(StartFailure::Errno(libc::EAGAIN)))
        .map(|(init, leader)| Pid::from_raw(init).zip(Pid::from_raw(leader)));
    match pids {
        Ok(Some((pid, leader))) => Ok((leader, NamespaceInit { pid, lifeline })),
        failed => {
            end_children(own);
            Err(failed.err().unwrap_or(StartFailure::Errno(libc::ERANGE)))
        }
    }
}

/// Ends what a failed start has left. There is no other child at this time.
fn end_children(own: Pid) {
    loop {
        for process in procfs::descendants(own.as_raw_pid()) {
            signal(&process, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// What the launcher does.
fn launch(job: &Job, plan: &RootPlan, shim: Pid, held: OwnedFd) -> Launched {
    let shim_handle = pidfd_open(shim, PidfdFlags::empty())
        .step(StepSubject::Kernel, || "open a pidfd".to_owned())?;
    unshare(plan)?;
    die_with(&shim_handle)?;
    let (readiness, ready) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(init) = sys::fork_sibling()? else {
        drop(readiness);
        serve(plan, &shim_handle, held, ready);
    };
    drop((ready, held));
    receive::<Result<(), StartFailure>>(readiness)
        .unwrap_or(Err(StartFailure::Errno(libc::EAGAIN)))?;
    // From here on `/` is the new root.
    std::env::set_current_dir(&job.cwd)
        .step(StepSubject::Path, || format!("enter the folder `{}`", job.cwd.display()))?;
    drop_privileges()?;
    let parent = Parent::Sibling(shim_handle.as_fd());
    let leader = retry_busy(|| sys::start(job, parent, None))?;
    Ok((init.as_raw_pid(), leader.as_raw_pid()))
}

fn unshare(plan: &RootPlan) -> Result<(), StartFailure> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    if plan.network == Network::None {
        flags |= UnshareFlags::NEWNET;
    }
    sys::unshare(flags).step(StepSubject::Kernel, || "make new namespaces".to_owned())?;
    let (uid_inside, gid_inside) = match plan.user {
        RootUser::Caller => (uid, gid),
        RootUser::Root => (0, 0),
    };
    let write = |path: &str, text: String| {
        fs::write(path, text).step(StepSubject::Kernel, || format!("write {path}"))
    };
    // Without this only a privileged process may map a group.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{uid_inside} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid_inside} {gid} 1"))
}

/// Makes the kernel kill this process when its parent, the shim, dies.
fn die_with(shim: &OwnedFd) -> Result<(), StartFailure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the kernel was asked.
    if sys::has_ended(shim.as_fd())? { Err(StartFailure::Errno(libc::ESRCH)) } else { Ok(()) }
}

/// Drops all capabilities, for good.
fn drop_privileges() -> Result<(), StartFailure> {
    let drop = || {
        rustix::thread::set_no_new_privs(true)?;
        rustix::thread::clear_ambient_capability_set()?;
        // The kernel has fewer than this, and refuses the first that it does not have.
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if rustix::thread::remove_capability_from_bounding_set(one).is_err() {
                break;
            }
        }
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)
    };
    drop().step(StepSubject::Kernel, || "drop all capabilities".to_owned())
}

/// What init does.
fn serve(plan: &RootPlan, shim: &OwnedFd, held: OwnedFd, ready: OwnedFd) -> ! {
    match prepare_init(plan, shim, &held, &ready) {
        Ok(signals) => {
            if send(ready, &Ok::<(), StartFailure>(())).is_ok() {
                reap_until_closed(&held, &signals);
            }
        }
        // A launcher that is gone needs no reason.
        Err(failure) => drop(send(ready, &Err::<(), _>(failure))),
    }
    drop(held);
    sys::exit(DONE)
}

/// Makes the root, and gives up everything that nothing inside may get at. Returns a signalfd for the ends
/// of children.
fn prepare_init(
    plan: &RootPlan,
    shim: &OwnedFd,
    held: &OwnedFd,
    ready: &OwnedFd,
) -> Result<OwnedFd, StartFailure> {
    die_with(shim)?;
    mounts::make_root(plan)?;
    let hostname = plan.hostname.as_encoded_bytes();
    rustix::system::sethostname(hostname)
        .step(StepSubject::Kernel, || "set the hostname".to_owned())?;
    if plan.network == Network::None {
        sys::raise_loopback()
            .step(StepSubject::Kernel, || "raise the loopback interface".to_owned())?;
    }
    set_process_name("ralph-init");
    let signals = sys::take_over_signals(&[libc::SIGCHLD])?;
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .and_then(|()| rustix::stdio::dup2_stderr(&null))?;
    drop(null);
    // The tree's streams, the control socket and the guard: none of them may stay open by this process.
    sys::close_all_but(&[held, ready, &signals].map(AsRawFd::as_raw_fd))?;
    drop_privileges()?;
    // The memory is a copy of the shim's, which may hold what an earlier tree was given.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(signals)
}

/// Reaps children until the lifeline is closed and none is left.
fn reap_until_closed(held: &OwnedFd, signals: &OwnedFd) {
    let mut open = true;
    loop {
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        if open {
            fds.push(PollFd::new(held, PollFlags::IN));
        }
        // An interrupted poll is harmless: everything is checked anyway.
        let _ = poll(&mut fds, None);
        open = open && fds.get(1).is_none_or(|fd| fd.revents().is_empty());
        drop(fds);
        drain_signals(signals);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) if open => break,
                Err(_) => return,
            }
        }
    }
}

/// Writes one message, and closes the pipe.
fn send(pipe: OwnedFd, message: &impl Serialize) -> io::Result<()> {
    fs::File::from(pipe).write_all(&serde_json::to_vec(message)?)
}

/// Reads the message of a pipe to its end; `None` if its writer died before.
fn receive<T: for<'de> Deserialize<'de>>(pipe: OwnedFd) -> Option<T> {
    let mut bytes = Vec::new();
    fs::File::from(pipe).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
