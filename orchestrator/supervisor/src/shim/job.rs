//! A shim: runs jobs, each from the start of a leader to the end of its process tree.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::busy::retry_busy;
use super::control_socket::{ControlSocket, SpawnRequest};
use super::sys::Parent;
use super::tree::ProcessTree;
use super::{BROKEN, DONE, SHIM_NAME, launcher, set_process_name, sys};
use crate::shim::namespace_init::NamespaceInit;
use crate::shim::start_failure::StartFailure;
use crate::wire::{Job, Report};

/// What a shim sets up once, before it starts a leader.
struct ShimContext {
    own: Pid,
    signals: OwnedFd,
    null: OwnedFd,
}

/// Runs the jobs of the control socket in turn, until it is closed. A tree that survives is the last one.
pub(super) fn serve(control: OwnedFd, guard: Option<OwnedFd>) -> u8 {
    let Ok(mut socket) = ControlSocket::new(UnixStream::from(control)) else { return BROKEN };
    let context = match set_up() {
        Ok(context) => context,
        Err(reason) => {
            socket.send(&Report::Broken { reason });
            return BROKEN;
        }
    };
    while let Some(request) = socket.next_job() {
        if !run_job(request, &context, &mut socket) {
            break;
        }
    }
    // Only now a later orchestrator may find the guard unlocked.
    drop(guard);
    DONE
}

fn set_up() -> Result<ShimContext, String> {
    let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let own = rustix::process::getpid();
    rustix::process::setpgid(None, None)
        .map_err(|e| failed("cannot make a process group")(e.into()))?;
    sys::close_all_on_exec().map_err(failed("cannot read /proc/self/fd (is /proc mounted?)"))?;
    let signals = sys::take_over_signals(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT])
        .map_err(failed("cannot make a signalfd"))?;
    rustix::process::set_child_subreaper(Some(own))
        .map_err(|e| failed("cannot become a sub-reaper")(e.into()))?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| failed("cannot open /dev/null")(e.into()))?;
    set_process_name(SHIM_NAME);
    Ok(ShimContext { own, signals, null })
}

/// Runs a job. Returns whether its tree is gone and another job can follow.
fn run_job(request: SpawnRequest, context: &ShimContext, socket: &mut ControlSocket) -> bool {
    let SpawnRequest { job, streams, sandbox } = request;
    let started = start(&job, &streams, context.own, sandbox.as_ref());
    drop((streams, sandbox));
    // The orchestrator waits for the end of the tree's output: this process must not hold it open.
    let closed = rustix::stdio::dup2_stdin(&context.null)
        .and_then(|()| rustix::stdio::dup2_stdout(&context.null))
        .and_then(|()| rustix::stdio::dup2_stderr(&context.null));
    let ended = match started {
        Ok((leader, init)) => {
            let shim = context.own.as_raw_pid();
            socket.send(&Report::Started { pid: leader.as_raw_pid(), shim });
            let tree = ProcessTree::new(context.own, leader, init, job.grace, socket);
            tree.supervise(&context.signals)
        }
        Err(failure) => {
            socket.send(&failure.into_report());
            true
        }
    };
    ended && closed.is_ok() && socket.is_open()
}

fn start(
    job: &Job,
    [stdin, stdout, stderr]: &[OwnedFd; 3],
    own: Pid,
    sandbox: Option<&OwnedFd>,
) -> Result<(Pid, Option<NamespaceInit>), StartFailure> {
    rustix::stdio::dup2_stdin(stdin)
        .and_then(|()| rustix::stdio::dup2_stdout(stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(stderr))?;
    if let Some(file_system) = &job.file_system {
        return launcher::start(job, file_system, own);
    }
    std::env::set_current_dir(&job.cwd)?;
    let leader = retry_busy(|| sys::start(job, Parent::Caller(own), sandbox))?;
    Ok((leader, None))
}
