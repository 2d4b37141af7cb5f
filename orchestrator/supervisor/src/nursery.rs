//! The orchestrator's end of the nursery, the process that shims are forked from.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use command_fds::CommandFdExt as _;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::wire::{GUARD, MOST_SHIM_FDS};

/// The nursery's end of the socket, as it knows it.
const ORDERS: i32 = 3;
/// How many shims wait for a job at most.
const MOST_IDLE: usize = 4;

/// A nursery: started when it is first needed, and again if it was killed.
#[derive(Debug)]
pub(crate) struct Nursery {
    program: PathBuf,
    /// What it is called in lists of processes.
    name: Option<OsString>,
    leading_args: Vec<OsString>,
    running: Mutex<Option<Running>>,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Running {
    orders: OwnedFd,
    pid: Option<Pid>,
    /// Until it is waited for.
    process: Option<Child>,
}

/// A shim without a tree, waiting for a job.
#[derive(Debug)]
struct Idle {
    control: UnixStream,
    guard: Option<Arc<File>>,
}

impl Nursery {
    pub(crate) const fn new(
        program: PathBuf,
        name: Option<OsString>,
        leading_args: Vec<OsString>,
    ) -> Self {
        Self {
            program,
            name,
            leading_args,
            running: Mutex::new(None),
            idle: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Starts it, unless it runs.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(self.launch()?);
        }
        Ok(())
    }

    /// Asks for a new shim with this end of the control socket, which holds the guard.
    pub(crate) fn fork(&self, control: &OwnedFd, guard: Option<&File>) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running
            && running.ask(control, guard).is_ok()
        {
            return Ok(());
        }
        // It was never there, or is there no more: nobody has taken what was handed over.
        let fresh = self.launch()?;
        let asked = fresh.ask(control, guard);
        *running = Some(fresh);
        asked.map_err(Into::into)
    }

    /// The control socket of a shim that has nothing to do and holds this guard, if there is one.
    pub(crate) fn idle(&self, guard: Option<&Arc<File>>) -> Option<UnixStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that ended meanwhile.
        idle.retain(|idle| waits(&idle.control));
        let same = |idle: &Idle| match (&idle.guard, guard) {
            (Some(theirs), Some(guard)) => Arc::ptr_eq(theirs, guard),
            (None, None) => true,
            _ => false,
        };
        let at = idle.iter().position(same)?;
        Some(idle.swap_remove(at).control)
    }

    /// Keeps a shim for the next job, or lets it end.
    pub(crate) fn keep(&self, control: UnixStream, guard: Option<Arc<File>>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= MOST_IDLE {
            drop(idle.remove(0));
        }
        idle.push(Idle { control, guard });
    }

    #[allow(clippy::disallowed_methods)] // This is the place that spawns.
    fn launch(&self) -> io::Result<Running> {
        unwaited().retain_mut(|process| matches!(process.try_wait(), Ok(None)));
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(&self.program);
        if let Some(name) = &self.name {
            command.arg0(name);
        }
        command
            .args(&self.leading_args)
            .arg(ORDERS.to_string())
            .env_clear()
            // A Ctrl-C at the terminal is the orchestrator's to translate.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .fd_mappings(vec![command_fds::FdMapping { parent_fd: theirs, child_fd: ORDERS }])
            .map_err(io::Error::other)?;
        let process = command.spawn()?;
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        Ok(Running { orders: ours, pid, process: Some(process) })
    }
}

impl Running {
    fn ask(&self, control: &OwnedFd, guard: Option<&File>) -> Result<(), Errno> {
        // Whoever stopped it means no good.
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::CONT);
        }
        let mut fds = vec![control.as_fd()];
        fds.extend(guard.map(AsFd::as_fd));
        let what = if guard.is_some() { GUARD } else { 0 };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SHIM_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::INVAL);
        }
        let bytes = [what];
        loop {
            let sent = sendmsg(
                self.orders.as_fd(),
                &[IoSlice::new(&bytes)],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            );
            match sent {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop),
            }
        }
    }
}

/// Whether nothing has come, not even the end.
fn waits(control: &UnixStream) -> bool {
    let mut byte = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(recv(control, &mut byte, flags), Err(Errno::AGAIN))
}

/// Nurseries that no thread could be made to wait for; looked at when the next one is started.
fn unwaited() -> MutexGuard<'static, Vec<Child>> {
    static UNWAITED: Mutex<Vec<Child>> = Mutex::new(Vec::new());
    UNWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends when its socket is closed and its last shim has gone, which nobody may have to wait
        // for.
        let Some(process) = self.process.take() else { return };
        let (hand_over, handed_over) = mpsc::sync_channel::<Child>(1);
        let wait = move || handed_over.recv().map(|mut process| process.wait());
        let thread = std::thread::Builder::new().name("nursery".to_owned()).spawn(wait);
        let unsent = match thread {
            Ok(_) => hand_over.send(process).err().map(|error| error.0),
            Err(_) => Some(process),
        };
        unwaited().extend(unsent);
    }
}
