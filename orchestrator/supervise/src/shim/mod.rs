//! The process between the orchestrator and an agent: it starts the leader of a process tree, and
//! exits only when all of the tree is gone.
//!
//! It must be entered before anything else of the program runs, since it relies on being
//! single-threaded: the kernel kills the leader when the *thread* that started it ends, and the shim
//! waits for any child there is, which would rob everybody else of their children's endings.

mod ladder;
mod link;
mod sys;
mod tree;

pub(crate) use sys::{NOT_CONFINED, landlock_level};

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use crate::wire::{Job, Report};
use link::Link;
use tree::Tree;

/// The first argument that makes a program the shim.
pub const FIRST_ARGUMENT: &str = "__supervise";

/// Exit codes of sysexits.h.
const DONE: u8 = 0;
const USAGE: u8 = 64;
const BROKEN: u8 = 71;

/// How often, and how long apart, a program is tried that somebody is just writing.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Makes this process the shim, and never returns, if its first argument is [`FIRST_ARGUMENT`].
/// To be called first in `main`, before any thread or runtime starts.
pub fn intercept() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == OsStr::new(FIRST_ARGUMENT)) {
        std::process::exit(i32::from(run(args)));
    }
}

/// Runs the shim with the arguments that [`Supervisor`](crate::Supervisor) gave it, those after
/// [`FIRST_ARGUMENT`]. To be called before any thread or runtime starts.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run(args))
}

fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Some(job) = Job::from_args(args) else {
        return refuse("these are not the arguments of a shim; only ralph-orchestrator starts it");
    };
    let link = sys::take_fd(job.control).and_then(Link::new);
    let guard = job.guard.map(sys::take_fd).transpose();
    let sandbox = job.sandbox.map(sys::take_fd).transpose();
    let (Ok(mut link), Ok(guard), Ok(sandbox)) = (link, guard, sandbox) else {
        return refuse("no open control socket; only ralph-orchestrator starts it");
    };
    let code = match prepare() {
        Ok(place) => supervise(&job, place, sandbox.as_ref(), link),
        Err(e) => {
            link.send(&Report::Broken { reason: e });
            BROKEN
        }
    };
    // Only now may a later orchestrator see the guard unlocked.
    drop(guard);
    code
}

fn refuse(why: &str) -> u8 {
    // Nobody is left to tell if stderr cannot be written.
    let _ = writeln!(io::stderr(), "{FIRST_ARGUMENT}: {why}");
    USAGE
}

/// What the shim needs before it may start a leader.
struct Place {
    own: Pid,
    signals: OwnedFd,
    null: OwnedFd,
}

fn prepare() -> Result<Place, String> {
    let say = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let own = rustix::process::getpid();
    sys::close_all_on_exec().map_err(say("cannot read /proc/self/fd (is /proc mounted?)"))?;
    let signals = sys::take_over_signals().map_err(say("cannot make a signalfd"))?;
    rustix::process::set_child_subreaper(Some(own))
        .map_err(|e| say("cannot become a sub-reaper")(e.into()))?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| say("cannot open /dev/null")(e.into()))?;
    // So that lists of processes do not show the name of the link that was executed, `exe`. It is a
    // help for people only.
    let _ = std::fs::write("/proc/self/comm", "ralph-supervise");
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
    let mut tries = 1;
    loop {
        match sys::start(&job.program, &job.args, own, sandbox) {
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
