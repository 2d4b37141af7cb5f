//! The nursery: forks the shims, and outlives them.
//!
//! It is a sub-reaper, so that what a killed shim leaves behind becomes its child, and is ended: the
//! end of a shim's control socket, of which it holds a copy, means that nothing of the tree is left,
//! however the shim ended.

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
use super::{BROKEN, DONE, call_me, job, sys};
use crate::procfs::{self, Stat};
use crate::wire::{GUARD, MOST_SHIM_FDS, Report};

/// How often orphans are killed, for what they fork meanwhile.
const TICK: Duration = Duration::from_millis(10);
/// How long after the first time those that are still there are left alone: another user's, or stuck
/// in the kernel.
const GIVE_UP: Duration = Duration::from_secs(30);

/// What a shim is handed for good.
struct Handed {
    /// Its end of the control socket.
    control: OwnedFd,
    /// A file to keep open until the shim has ended.
    guard: Option<OwnedFd>,
}

/// What tells others that something of a tree is left, as long as it is open.
#[derive(Debug)]
struct Signs {
    _control: OwnedFd,
    _guard: Option<OwnedFd>,
}

#[derive(Default)]
struct Nursery {
    shims: HashMap<Pid, Signs>,
    /// Of shims that were killed.
    orphaned: Vec<Signs>,
    orphans_since: Option<Instant>,
}

/// Forks shims as asked for on `orders`, until that is closed and the last of them has gone.
pub(super) fn serve(orders: OwnedFd) -> u8 {
    call_me("ralph-nursery");
    let own = rustix::process::getpid();
    let Ok(signals) = sys::take_over_signals(&[libc::SIGCHLD]) else { return BROKEN };
    if rustix::process::set_child_subreaper(Some(own)).is_err() {
        return BROKEN;
    }
    // Nobody's folder is kept from being unmounted.
    let _ = std::env::set_current_dir("/");
    let mut nursery = Nursery::default();
    let mut orders = Some(orders);
    while orders.is_some() || !nursery.is_empty() {
        let timeout = nursery.orphans_since.map(|_| tick());
        let mut fds = vec![PollFd::new(&signals, PollFlags::IN)];
        fds.extend(orders.as_ref().map(|orders| PollFd::new(orders, PollFlags::IN)));
        // An interrupted poll is like one that found nothing: everything is looked at anyway.
        let _ = poll(&mut fds, timeout.as_ref());
        let asked = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        drain(&signals);
        nursery.reap();
        nursery.end_orphans(own);
        if !asked {
            continue;
        }
        match orders.as_ref().map(receive) {
            Some(Ok(Some(handed))) => match sys::fork() {
                Ok(None) => {
                    // What belongs to the nursery would tell of its other trees.
                    drop((nursery, orders, signals));
                    return job::serve(handed.control, handed.guard);
                }
                Ok(Some(pid)) => nursery.born(pid, handed),
                Err(e) => failed(&handed, &e),
            },
            // Nothing that can be answered.
            Some(Ok(None)) => {}
            Some(Err(Errno::INTR | Errno::AGAIN)) => {}
            Some(Err(_)) | None => orders = None,
        }
    }
    DONE
}

impl Nursery {
    fn is_empty(&self) -> bool {
        self.shims.is_empty() && self.orphaned.is_empty()
    }

    fn born(&mut self, pid: Pid, handed: Handed) {
        self.shims.insert(pid, Signs { _control: handed.control, _guard: handed.guard });
    }

    /// Takes note of who ended. A shim that was killed leaves its tree to the nursery.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let Some(signs) = self.shims.remove(&pid) else { continue };
            if status.exited() {
                drop(signs);
            } else {
                self.orphaned.push(signs);
                self.orphans_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Kills all that is neither a shim nor below one.
    fn end_orphans(&mut self, own: Pid) {
        let Some(since) = self.orphans_since else { return };
        let shim = |pid: i32| Pid::from_raw(pid).is_some_and(|pid| self.shims.contains_key(&pid));
        let mut orphans = procfs::descendants(own.as_raw_pid());
        orphans.retain(|process| process.parent == own.as_raw_pid() && !shim(process.pid));
        let below = orphans.iter().flat_map(|orphan| procfs::descendants(orphan.pid));
        let mut all: Vec<Stat> = below.collect();
        all.extend(orphans);
        all.retain(|process| !process.zombie);
        for process in &all {
            signal(process, Signal::KILL);
        }
        if all.is_empty() || since.elapsed() > GIVE_UP {
            self.orphaned.clear();
            self.orphans_since = None;
        }
    }
}

fn tick() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) }
}

/// Empties a signalfd, whose signals only wake.
fn drain(signals: &OwnedFd) {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    while let Ok(1..) = rustix::io::read(signals, &mut info) {}
}

/// The next thing that is handed over; `None` for what is not understood.
fn receive(orders: &OwnedFd) -> Result<Option<Handed>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SHIM_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut what = [0_u8];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut slices = [IoSliceMut::new(&mut what)];
    let message = recvmsg(orders, &mut slices, &mut ancillary, flags)?;
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
    Ok(unpack(what[0], fds))
}

fn unpack(what: u8, fds: Vec<OwnedFd>) -> Option<Handed> {
    let mut fds = fds.into_iter();
    let control = fds.next()?;
    let guard = if what & GUARD == 0 { None } else { Some(fds.next()?) };
    Some(Handed { control, guard })
}

/// Tells the orchestrator that there is no process for it.
fn failed(handed: &Handed, error: &io::Error) {
    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
    if let Ok(mut line) = serde_json::to_vec(&Report::SpawnFailed { errno }) {
        line.push(b'\n');
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        let _ = rustix::net::send(&handed.control, &line, flags);
    }
}
