//! One shim: from its job to the end of its tree.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::link::Link;
use super::nursery::Handed;
use super::tree::Tree;
use super::{BROKEN, DONE, call_me, sys};
use crate::wire::{Job, Report};

/// How often, and how long apart, a program is tried that somebody is just writing.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// What the shim needs before it may start a leader.
struct Place {
    own: Pid,
    signals: OwnedFd,
    null: OwnedFd,
}

/// Does the job that is read from the control socket.
pub(super) fn perform(handed: Handed) -> u8 {
    let Handed { control, streams, guard, sandbox } = handed;
    let mut control = UnixStream::from(control);
    let Ok(job) = Job::read(&mut control) else {
        // Whoever asked for it has gone, or changed its mind.
        return DONE;
    };
    let Ok(mut link) = Link::new(control) else { return BROKEN };
    let code = match prepare(streams) {
        Ok(place) => supervise(&job, place, sandbox.as_ref(), link),
        Err(reason) => {
            link.send(&Report::Broken { reason });
            BROKEN
        }
    };
    // Only now may a later orchestrator see the guard unlocked.
    drop(guard);
    code
}

fn prepare([stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Place, String> {
    let say = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let own = rustix::process::getpid();
    rustix::process::setpgid(None, None)
        .map_err(|e| say("cannot make a process group")(e.into()))?;
    rustix::stdio::dup2_stdin(&stdin)
        .and_then(|()| rustix::stdio::dup2_stdout(&stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(&stderr))
        .map_err(|e| say("cannot take over the standard streams")(e.into()))?;
    drop((stdin, stdout, stderr));
    sys::close_all_on_exec().map_err(say("cannot read /proc/self/fd (is /proc mounted?)"))?;
    let signals = sys::take_over_signals(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT])
        .map_err(say("cannot make a signalfd"))?;
    rustix::process::set_child_subreaper(Some(own))
        .map_err(|e| say("cannot become a sub-reaper")(e.into()))?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| say("cannot open /dev/null")(e.into()))?;
    call_me("ralph-supervise");
    Ok(Place { own, signals, null })
}

fn supervise(job: &Job, place: Place, sandbox: Option<&OwnedFd>, mut link: Link) -> u8 {
    let leader = match start(job, place.own, sandbox) {
        Ok(leader) => leader,
        Err(e) => {
            // Every failure of fork and exec has a number.
            let errno = e.raw_os_error().unwrap_or(libc::EINVAL);
            link.send(&Report::SpawnFailed { errno });
            return DONE;
        }
    };
    // The orchestrator waits for the end of the tree's output: nothing may hold it open here.
    let let_go = rustix::stdio::dup2_stdin(&place.null)
        .and_then(|()| rustix::stdio::dup2_stdout(&place.null))
        .and_then(|()| rustix::stdio::dup2_stderr(&place.null));
    drop(place.null);
    link.send(&Report::Started { pid: leader.as_raw_pid() });
    Tree::new(place.own, leader, job.grace, link).watch(&place.signals);
    if let_go.is_ok() { DONE } else { BROKEN }
}

fn start(job: &Job, own: Pid, sandbox: Option<&OwnedFd>) -> io::Result<Pid> {
    std::env::set_current_dir(&job.cwd)?;
    let mut tries = 1;
    loop {
        match sys::start(job, own, sandbox) {
            // Every file that is just being installed is open for writing for a moment, in the
            // installer or in a process that was forked off it.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            result => return result,
        }
    }
}
