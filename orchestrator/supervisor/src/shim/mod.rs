//! The processes between the orchestrator and its agents.
//!
//! The *fork server* is started once, and forks a *shim* for each process tree, which is much faster than
//! executing a program. A shim starts the leader of its tree, and exits when the whole tree is gone. Both
//! must be single-threaded: the kernel kills a leader when the *thread* that started it ends, both wait for
//! any child, which would take exit statuses from other code, and only a process without threads may fork
//! and continue. So they must be entered before any other code of the program runs.

mod busy;
mod control_socket;
mod escalation;
mod fork_server;
mod invocation;
mod job;
mod launcher;
mod mount_calls;
mod mounts;
mod namespace_init;
mod privileges;
mod root;
mod start_failure;
pub(crate) mod sys;
mod transient;
mod tree;
mod view;

pub(crate) use escalation::GIVE_UP;
pub use invocation::FIRST_ARGUMENT;
pub(crate) use tree::signal;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of a shim in process lists.
pub(crate) const SHIM_NAME: &str = "ralph-supervise";

/// Exit codes of sysexits.h.
const DONE: u8 = 0;
const USAGE: u8 = 64;
const BROKEN: u8 = 71;

/// Makes this process the fork server, and does not return, if its first argument is [`FIRST_ARGUMENT`].
/// To be called first in `main`, before any thread or runtime starts.
pub fn intercept() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == OsStr::new(FIRST_ARGUMENT)) {
        std::process::exit(i32::from(run(args)));
    }
    INTERCEPTED.store(true, Ordering::Relaxed);
}

/// Whether this process has called [`intercept`]: only then can its own program be the fork server. Otherwise each
/// start of the fork server would run the program anew.
#[must_use]
pub fn is_intercepted() -> bool {
    INTERCEPTED.load(Ordering::Relaxed)
}

static INTERCEPTED: AtomicBool = AtomicBool::new(false);

/// Runs the fork server with the arguments that [`Supervisor`](crate::Supervisor) gave it, those after
/// [`FIRST_ARGUMENT`]. To be called before any thread or runtime starts.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run(args))
}

fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    if args.into_iter().next().is_some() {
        return refuse("invalid arguments; only ralph-orchestrator starts it");
    }
    match sys::take_stdin_socket() {
        Ok(requests) => fork_server::serve(requests),
        Err(_) => refuse("standard input is no socket; only ralph-orchestrator starts it"),
    }
}

fn refuse(why: &str) -> u8 {
    // A failure to write to stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{FIRST_ARGUMENT}: {why}");
    USAGE
}

/// Sets the name of this process in process lists, for display only.
fn set_process_name(name: &str) {
    let _ = std::fs::write("/proc/self/comm", name);
}

/// Drains a signalfd, whose signals only wake.
fn drain_signals(signals: &OwnedFd) {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    while let Ok(1..) = rustix::io::read(signals, &mut info) {}
}
