//! Starting a leader in namespaces of its own.
//!
//! ```text
//! shim ─┬─ launcher: new namespaces; gone when the leader runs
//!       ├─ init: pid 1 inside; makes the root or `/proc`, then adopts and reaps
//!       └─ leader: pid 2 inside ──▶ …
//! ```
//!
//! The launcher makes init and the leader its siblings, so the leader is the shim's own child, as without
//! namespaces: its exit, its signals and its group need no translation. What the leader's descendants leave becomes
//! init's; when init ends, the kernel kills everything inside. In a view without a pid namespace there is no init, and
//! what they leave becomes the shim's.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, waitpid,
};
use serde::{Deserialize, Serialize};

use super::busy::retry_busy;
use super::namespace_init::NamespaceInit;
use super::privileges::{die_with, drop_all};
use super::start_failure::{StartFailure, Step as _};
use super::sys::{self, Parent};
use super::tree::signal;
use super::view::Privileges;
use super::{BROKEN, DONE, drain_signals, root, set_process_name, view};
use crate::file_fault::FileFault;
use crate::procfs;
use crate::step::StepSubject;
use crate::wire::{FileSystem, Job};

/// The pids of init, if there is one, and of the leader; nothing if there can be no `/proc` for a pid namespace.
type Launched = Result<Option<(Option<i32>, i32)>, StartFailure>;

/// Starts the leader with a file system of its own; its streams are those of this process (`own`).
pub(super) fn start(
    job: &Job,
    file_system: &FileSystem,
    own: Pid,
) -> Result<(Pid, Option<NamespaceInit>), StartFailure> {
    // Only by trying it can be known.
    for new_pids in [true, false] {
        if let Some(started) = try_start(job, file_system, new_pids, own)? {
            return Ok(started);
        }
    }
    Err(StartFailure::Errno(libc::ENOSYS))
}

/// Returns nothing if there can be no `/proc` for a pid namespace.
fn try_start(
    job: &Job,
    file_system: &FileSystem,
    new_pids: bool,
    own: Pid,
) -> Result<Option<(Pid, Option<NamespaceInit>)>, StartFailure> {
    let (held, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    let (reports, report) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(launcher) = sys::fork()? else {
        let launched = launch(job, file_system, new_pids, own, held);
        sys::exit(if send(report, &launched).is_ok() { DONE } else { BROKEN });
    };
    drop((held, report));
    let launched = receive::<Launched>(reports);
    let _ = waitpid(Some(launcher), WaitOptions::empty());
    let launched = launched.unwrap_or(Err(StartFailure::Errno(libc::EAGAIN)));
    if let Ok(Some((init, leader))) = launched
        && let Some(leader) = Pid::from_raw(leader)
    {
        let init = init.and_then(Pid::from_raw);
        return Ok(Some((leader, init.map(|pid| NamespaceInit { pid, lifeline }))));
    }
    end_children(own);
    launched.map(|_| None)
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
fn launch(
    job: &Job,
    file_system: &FileSystem,
    new_pids: bool,
    shim: Pid,
    held: OwnedFd,
) -> Launched {
    let shim_handle = pidfd_open(shim, PidfdFlags::empty())
        .step(StepSubject::Kernel, || "open a pidfd".to_owned())?;
    let privileges = match file_system {
        FileSystem::Root(plan) => root::enter_namespaces(plan).map(|()| None)?,
        FileSystem::View(_) => view::enter_namespaces(new_pids).map(Some)?,
    };
    die_with(&shim_handle)?;
    if let FileSystem::View(plan) = file_system {
        view::make_view(plan)?;
    }
    let init = if new_pids {
        match start_init(file_system, &shim_handle, held)? {
            None => return Ok(None),
            init => init,
        }
    } else {
        None
    };
    let leader = start_leader(job, file_system, privileges.as_ref(), &shim_handle)?;
    Ok(Some((init.map(Pid::as_raw_pid), leader.as_raw_pid())))
}

/// Starts init. Returns nothing if there can be no `/proc` of its own.
fn start_init(
    file_system: &FileSystem,
    shim: &OwnedFd,
    held: OwnedFd,
) -> Result<Option<Pid>, StartFailure> {
    let (readiness, ready) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(init) = sys::fork_sibling()? else {
        drop(readiness);
        serve(file_system, shim, held, ready);
    };
    drop((ready, held));
    let is_ready = receive::<Result<bool, StartFailure>>(readiness)
        .unwrap_or(Err(StartFailure::Errno(libc::EAGAIN)))?;
    Ok(is_ready.then_some(init))
}

/// Starts the leader where this process is.
fn start_leader(
    job: &Job,
    file_system: &FileSystem,
    privileges: Option<&Privileges>,
    shim: &OwnedFd,
) -> Result<Pid, StartFailure> {
    // From here on `/` is the new root, or what a view shows of the host's.
    std::env::set_current_dir(&job.cwd)
        .step(StepSubject::Path, || format!("enter the folder `{}`", job.cwd.display()))?;
    let ruleset = match file_system {
        FileSystem::View(plan) => {
            plan.sandbox.as_ref().map(|sandbox| view::make_ruleset(sandbox, job)).transpose()?
        }
        FileSystem::Root(_) => None,
    };
    privileges.map_or_else(drop_all, Privileges::drop)?;
    let parent = Parent::Sibling(shim.as_fd());
    retry_busy(|| sys::start(job, parent, ruleset.as_ref())).map_err(|error| {
        let failure = StartFailure::from(error);
        match (file_system, failure) {
            // Outside nobody can see why.
            (FileSystem::View(_), StartFailure::Errno(errno)) => {
                match FileFault::examine(Path::new(&job.program), errno) {
                    Some(fault) => StartFailure::Program { fault, errno },
                    None => StartFailure::Errno(errno),
                }
            }
            (_, failure) => failure,
        }
    })
}

/// What init does.
fn serve(file_system: &FileSystem, shim: &OwnedFd, held: OwnedFd, ready: OwnedFd) -> ! {
    match prepare_init(file_system, shim, &held, &ready) {
        Ok(Some(signals)) => {
            if send(ready, &Ok::<_, StartFailure>(true)).is_ok() {
                reap_until_closed(&held, &signals);
            }
        }
        Ok(None) => drop(send(ready, &Ok::<_, StartFailure>(false))),
        // A launcher that is gone needs no reason.
        Err(failure) => drop(send(ready, &Err::<bool, _>(failure))),
    }
    drop(held);
    sys::exit(DONE)
}

/// Makes what only pid 1 can make, and gives up everything that nothing inside may get at. Returns a signalfd for the
/// ends of children; nothing if there can be no `/proc`.
fn prepare_init(
    file_system: &FileSystem,
    shim: &OwnedFd,
    held: &OwnedFd,
    ready: &OwnedFd,
) -> Result<Option<OwnedFd>, StartFailure> {
    die_with(shim)?;
    match file_system {
        FileSystem::Root(plan) => root::prepare(plan)?,
        FileSystem::View(_) if !view::make_proc()? => return Ok(None),
        FileSystem::View(_) => {}
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
    drop_all()?;
    // The memory is a copy of the shim's, which may hold what an earlier tree was given.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(Some(signals))
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
