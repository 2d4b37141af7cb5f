//! The orchestrator's handle to the fork server, the process that shims are forked from.

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
use std::thread::{Builder, JoinHandle};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::adoption::adopt;
use crate::keepers::Keepers;
use crate::procfs;
use crate::shim::signal;
use crate::wire::{GUARD, MAX_FORK_FDS};

/// The number of idle shims that are kept.
const MAX_IDLE: usize = 4;

/// A fork server. It is started when it is first needed, and again if it was killed.
#[derive(Debug)]
pub(crate) struct ForkServer {
    plan: Arc<LaunchPlan>,
    state: Mutex<ServerState>,
}

/// How it is started.
#[derive(Debug)]
struct LaunchPlan {
    program: PathBuf,
    /// Its name in process lists.
    name: Option<OsString>,
    args: Vec<OsString>,
}

#[derive(Debug, Default)]
enum ServerState {
    #[default]
    Stopped,
    /// A thread waits until the system has loaded the program.
    Starting(JoinHandle<io::Result<RunningServer>>),
    Running(RunningServer),
}

/// Shims that wait for a job. They end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct IdleShims(Mutex<Vec<IdleShim>>);

#[derive(Debug)]
struct RunningServer {
    requests: OwnedFd,
    pid: Option<Pid>,
    /// The process until it is waited for.
    process: Option<Child>,
}

/// A shim without a process tree that waits for a job.
#[derive(Debug)]
pub(crate) struct IdleShim {
    pub(crate) control: UnixStream,
    pub(crate) guard: Option<Arc<File>>,
    /// Known once it has had a tree.
    pub(crate) keepers: Option<Keepers>,
}

impl ForkServer {
    pub(crate) fn new(program: PathBuf, name: Option<OsString>, args: Vec<OsString>) -> Self {
        let plan = Arc::new(LaunchPlan { program, name, args });
        Self { plan, state: Mutex::new(ServerState::Stopped) }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.plan.program
    }

    /// Begins to start it, unless it runs. What fails is tried again, and reported, when it is needed.
    pub(crate) fn start(&self) {
        let mut state = self.lock();
        if matches!(*state, ServerState::Stopped) {
            let plan = Arc::clone(&self.plan);
            let thread = Builder::new().name("fork-server".to_owned()).spawn(move || plan.launch());
            *state = thread.map_or(ServerState::Stopped, ServerState::Starting);
        }
    }

    /// Forks a new shim, which gets this end of the control socket and holds the guard.
    pub(crate) fn fork(&self, control: &OwnedFd, guard: Option<&File>) -> io::Result<()> {
        let mut state = self.lock();
        *state = match std::mem::take(&mut *state) {
            ServerState::Starting(thread) => match thread.join() {
                Ok(Ok(running)) => ServerState::Running(running),
                Ok(Err(_)) | Err(_) => ServerState::Stopped,
            },
            known => known,
        };
        if let ServerState::Running(running) = &*state
            && running.send_request(control, guard).is_ok()
        {
            return Ok(());
        }
        // It never ran, or is gone: nobody has received the request.
        let fresh = self.plan.launch()?;
        let sent = fresh.send_request(control, guard);
        *state = ServerState::Running(fresh);
        sent.map_err(Into::into)
    }

    /// Continues the fork server if it is stopped, and sends a signal to those of its shims that are.
    pub(crate) fn signal_stopped(&self, signal_to_shims: Signal) {
        let state = self.lock();
        let ServerState::Running(running) = &*state else { return };
        running.wake();
        let shims = running.pid.map(|pid| procfs::children(pid.as_raw_pid())).unwrap_or_default();
        for process in shims.iter().filter(|process| process.stopped) {
            signal(process, signal_to_shims);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaunchPlan {
    #[allow(clippy::disallowed_methods)] // This crate starts all processes.
    fn launch(&self) -> io::Result<RunningServer> {
        adopt()?;
        unwaited().retain_mut(|process| matches!(process.try_wait(), Ok(None)));
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(&self.program);
        if let Some(name) = &self.name {
            command.arg0(name);
        }
        command
            .args(&self.args)
            .env_clear()
            // The orchestrator handles Ctrl-C at the terminal.
            .process_group(0)
            // As its standard input: whatever has to be arranged between fork and exec would make this a copy of
            // the whole program's memory, which other threads wait for.
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn()?;
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        Ok(RunningServer { requests: ours, pid, process: Some(process) })
    }
}

impl IdleShims {
    /// Takes an idle shim that holds this guard, if there is one.
    pub(crate) fn take(&self, guard: Option<&Arc<File>>) -> Option<IdleShim> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Drop those that ended meanwhile.
        idle.retain(|idle| is_silent(&idle.control));
        let same = |idle: &IdleShim| match (&idle.guard, guard) {
            (Some(theirs), Some(guard)) => Arc::ptr_eq(theirs, guard),
            (None, None) => true,
            _ => false,
        };
        let at = idle.iter().position(same)?;
        Some(idle.swap_remove(at))
    }

    /// Keeps an idle shim for the next job. Beyond the limit, the oldest one ends.
    pub(crate) fn recycle(&self, shim: IdleShim) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= MAX_IDLE {
            drop(idle.remove(0));
        }
        idle.push(shim);
        // Whoever stopped one of them has ended by now. Stopped it would never see the end of this process.
        Keepers::wake_all(idle.iter().filter_map(|shim| shim.keepers.as_ref()));
    }
}

impl RunningServer {
    /// Continues it if it was stopped.
    fn wake(&self) {
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    fn send_request(&self, control: &OwnedFd, guard: Option<&File>) -> Result<(), Errno> {
        self.wake();
        let mut fds = vec![control.as_fd()];
        fds.extend(guard.map(AsFd::as_fd));
        let flags = if guard.is_some() { GUARD } else { 0 };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FORK_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::INVAL);
        }
        let bytes = [flags];
        loop {
            let sent = sendmsg(
                self.requests.as_fd(),
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

/// Whether the socket has neither data nor end of file.
fn is_silent(control: &UnixStream) -> bool {
    let mut byte = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(recv(control, &mut byte, flags), Err(Errno::AGAIN))
}

/// Fork servers for which no waiting thread could be started; reaped when the next one is started.
fn unwaited() -> MutexGuard<'static, Vec<Child>> {
    static UNWAITED: Mutex<Vec<Child>> = Mutex::new(Vec::new());
    UNWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // It exits when its socket is closed and its last shim is gone. Wait for that on another thread.
        let Some(process) = self.process.take() else { return };
        let (hand_over, handed_over) = mpsc::sync_channel::<Child>(1);
        let wait = move || handed_over.recv().map(|mut process| process.wait());
        let thread = Builder::new().name("fork-server".to_owned()).spawn(wait);
        let unsent = match thread {
            Ok(_) => hand_over.send(process).err().map(|error| error.0),
            Err(_) => Some(process),
        };
        unwaited().extend(unsent);
    }
}
