//! The processes between the orchestrator and its agents.
//!
//! The *nursery* is started once, and forks a *shim* for each process tree: that is far quicker than
//! to execute a program again. A shim starts the leader of its tree, and exits only when all of the
//! tree is gone. Both rely on being single-threaded: the kernel kills a leader when the *thread* that
//! started it ends, both wait for any child there is, which would rob everybody else of their
//! children's endings, and only a process without threads may be forked and go on. So they must be
//! entered before anything else of the program runs.

mod job;
mod ladder;
mod link;
mod nursery;
mod sys;
mod tree;

pub(crate) use sys::{NOT_CONFINED, landlock_level};
pub(crate) use tree::signal;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The first argument that makes a program the nursery.
pub const FIRST_ARGUMENT: &str = "__supervise";

/// Exit codes of sysexits.h.
const DONE: u8 = 0;
const USAGE: u8 = 64;
const BROKEN: u8 = 71;

/// Makes this process the nursery, and never returns, if its first argument is [`FIRST_ARGUMENT`].
/// To be called first in `main`, before any thread or runtime starts.
pub fn intercept() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == OsStr::new(FIRST_ARGUMENT)) {
        std::process::exit(i32::from(run(args)));
    }
}

/// Runs the nursery with the arguments that [`Supervisor`](crate::Supervisor) gave it, those after
/// [`FIRST_ARGUMENT`]. To be called before any thread or runtime starts.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run(args))
}

fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let mut args = args.into_iter();
    let (Some(fd), None) = (args.next().and_then(|fd| fd.to_str()?.parse().ok()), args.next())
    else {
        return refuse("these are not its arguments; only ralph-orchestrator starts it");
    };
    match sys::take_fd(fd) {
        Ok(orders) => nursery::serve(orders),
        Err(_) => refuse("no open socket; only ralph-orchestrator starts it"),
    }
}

fn refuse(why: &str) -> u8 {
    // Nobody is left to tell if stderr cannot be written.
    let _ = writeln!(io::stderr(), "{FIRST_ARGUMENT}: {why}");
    USAGE
}

/// Names this process in lists of processes. It is a help for people only.
fn call_me(name: &str) {
    let _ = std::fs::write("/proc/self/comm", name);
}
