//! The fork server: forks the shims, and outlives them.
//!
//! It is a child subreaper: orphans of a killed shim become its children, and are killed. It holds a copy of
//! each shim's control socket, so the end of that socket means that the whole tree is gone, however the
//! shim ended.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions, wait};

use super::tree::signal;
use super::{BROKEN, DONE, drain_signals, job, set_process_name, sys};
use crate::procfs::{self, Stat};
use crate::wire::{GUARD, MAX_FORK_FDS, Report};

/// The interval at which orphans are killed, because they may fork.
const TICK: Duration = Duration::from_millis(10);
/// The time after which surviving orphans are given up: another user's, or stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(30);

/// A request to fork a shim.
struct ForkRequest {
    /// The shim's end of the control socket.
    control: OwnedFd,
    /// A file that the shim keeps open until it ends.
    guard: Option<OwnedFd>,
}

/// The descriptors that, while open, tell others that processes of a tree exist.
#[derive(Debug)]
struct Lifeline {
    _control: OwnedFd,
    _guard: Option<OwnedFd>,
}

#[derive(Default)]
struct ShimTable {
    shims: HashMap<Pid, Lifeline>,
    /// The lifelines of shims that were killed.
    orphaned: Vec<Lifeline>,
    orphans_since: Option<Instant>,
}

/// Forks shims on request, until `requests` is closed and the last shim is gone.
pub(super) fn serve(requests: OwnedFd) -> u8 {
    set_process_name("ralph-forksrv");
    let own = rustix::process::getpid();
    let Ok(signals) = sys::take_over_signals(&[libc::SIGCHLD]) else { return BROKEN };
    if rustix::process::set_child_subreaper(Some(own)).is_err() {
        return BROKEN;
    }
    // Do not keep a folder from being unmounted.
    let _ = std::env::set_current_dir("/");
    let mut table = ShimTable::default();
    let mut requests = Some(requests);
    while requests.is_some() || !table.is_empty() {
        let timeout = table.orphans_since.map(|_| tick());
        let mut fds = vec![PollFd::new(&signals, PollFlags::IN)];
        fds.extend(requests.as_ref().map(|requests| PollFd::new(requests, PollFlags::IN)));
        // An interrupted poll is harmless: everything is checked anyway.
        let _ = poll(&mut fds, timeout.as_ref());
        let requested = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        drain_signals(&signals);
        table.reap();
        table.end_orphans(own);
        if !requested {
            continue;
        }
        match requests.as_ref().map(receive) {
            Some(Ok(Some(request))) => match sys::fork() {
                Ok(None) => {
                    // The shim must not hold the lifelines of other trees.
                    drop((table, requests, signals));
                    return job::serve(request.control, request.guard);
                }
                Ok(Some(pid)) => table.register(pid, request),
                Err(e) => report_failure(&request, &e),
            },
            // Not a valid request.
            Some(Ok(None)) => {}
            Some(Err(Errno::INTR | Errno::AGAIN)) => {}
            Some(Err(_)) | None => requests = None,
        }
    }
    DONE
}

impl ShimTable {
    fn is_empty(&self) -> bool {
        self.shims.is_empty() && self.orphaned.is_empty()
    }

    fn register(&mut self, pid: Pid, request: ForkRequest) {
        let ForkRequest { control, guard } = request;
        self.shims.insert(pid, Lifeline { _control: control, _guard: guard });
    }

    /// Reaps children. The tree of a shim that was killed becomes the fork server's.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let Some(lifeline) = self.shims.remove(&pid) else { continue };
            if status.exited() {
                drop(lifeline);
            } else {
                self.orphaned.push(lifeline);
                self.orphans_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Kills all children that are not shims, and their descendants.
    fn end_orphans(&mut self, own: Pid) {
        let Some(since) = self.orphans_since else { return };
        let shim = |pid: i32| Pid::from_raw(pid).is_some_and(|pid| self.shims.contains_key(&pid));
        let mut orphans = procfs::descendants(own.as_raw_pid());
        orphans.retain(|process| process.parent == own.as_raw_pid() && !shim(process.pid));
        let below = orphans.iter().flat_map(|orphan| procfs::descendants(orphan.pid));
        let mut all: Vec<Stat> = below.collect();
        all.extend(orphans);
        for process in all.iter().filter(|process| !process.zombie) {
            signal(process, Signal::KILL);
        }
        // A zombie may have left its children since the list was read.
        if all.is_empty() || since.elapsed() > GIVE_UP {
            self.orphaned.clear();
            self.orphans_since = None;
        }
    }
}

fn tick() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) }
}

/// Receives the next request; `None` if it is invalid.
fn receive(requests: &OwnedFd) -> Result<Option<ForkRequest>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FORK_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut flags_byte = [0_u8];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut slices = [IoSliceMut::new(&mut flags_byte)];
    let message = recvmsg(requests, &mut slices, &mut ancillary, flags)?;
    if message.bytes == 0 {
        return Err(Errno::PIPE);
    }
    let mut fds = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Ok(None);
    }
    Ok(parse_request(flags_byte[0], fds))
}

fn parse_request(flags: u8, fds: Vec<OwnedFd>) -> Option<ForkRequest> {
    let mut fds = fds.into_iter();
    let control = fds.next()?;
    let guard = if flags & GUARD == 0 { None } else { Some(fds.next()?) };
    Some(ForkRequest { control, guard })
}

/// Reports to the orchestrator that fork failed.
fn report_failure(request: &ForkRequest, error: &io::Error) {
    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
    if let Ok(mut line) = serde_json::to_vec(&Report::SpawnFailed { errno }) {
        line.push(b'\n');
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        let _ = rustix::net::send(&request.control, &line, flags);
    }
}
