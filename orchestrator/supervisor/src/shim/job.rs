//! A shim: its jobs, each from the start of a leader to the end of its tree.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::link::{Handed, Link};
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

/// Does the jobs that come by the control socket, one after the other, until that is closed. A tree that
/// does not end is the last.
pub(super) fn serve(control: OwnedFd, guard: Option<OwnedFd>) -> u8 {
    let Ok(mut link) = Link::new(UnixStream::from(control)) else { return BROKEN };
    let place = match prepare() {
        Ok(place) => place,
        Err(reason) => {
            link.send(&Report::Broken { reason });
            return BROKEN;
        }
    };
    while let Some(handed) = link.next_job() {
        if !perform(handed, &place, &mut link) {
            break;
        }
    }
    // Only now may a later orchestrator see the guard unlocked.
    drop(guard);
    DONE
}

fn prepare() -> Result<Place, String> {
    let say = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let own = rustix::process::getpid();
    rustix::process::setpgid(None, None)
        .map_err(|e| say("cannot make a process group")(e.into()))?;
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

/// Whether nothing of it is left, and more can be done.
fn perform(handed: Handed, place: &Place, link: &mut Link) -> bool {
    let Handed { job, streams, sandbox } = handed;
    let started = start(&job, &streams, place.own, sandbox.as_ref());
    drop((streams, sandbox));
    // The orchestrator waits for the end of the tree's output: nothing may hold it open here.
    let let_go = rustix::stdio::dup2_stdin(&place.null)
        .and_then(|()| rustix::stdio::dup2_stdout(&place.null))
        .and_then(|()| rustix::stdio::dup2_stderr(&place.null));
    let ended = match started {
        Ok(leader) => {
            link.send(&Report::Started { pid: leader.as_raw_pid() });
            Tree::new(place.own, leader, job.grace, link).watch(&place.signals)
        }
        Err(e) => {
            // Every failure of fork and exec has a number.
            let errno = e.raw_os_error().unwrap_or(libc::EINVAL);
            link.send(&Report::SpawnFailed { errno });
            true
        }
    };
    ended && let_go.is_ok() && link.is_open()
}

fn start(
    job: &Job,
    [stdin, stdout, stderr]: &[OwnedFd; 3],
    own: Pid,
    sandbox: Option<&OwnedFd>,
) -> io::Result<Pid> {
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)?;
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
