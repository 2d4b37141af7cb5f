//! The orchestrator's end of the nursery, the process that shims are forked from.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use command_fds::CommandFdExt as _;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::wire::{GUARD, MOST_FDS, SANDBOX};

/// The nursery's end of the socket, as it knows it.
const ORDERS: i32 = 3;

/// A nursery: started when it is first needed, and again if it was killed.
#[derive(Debug)]
pub(crate) struct Nursery {
    program: PathBuf,
    /// What it is called in lists of processes.
    name: Option<OsString>,
    leading_args: Vec<OsString>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    orders: OwnedFd,
    process: Child,
}

/// What a shim is handed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed<'a> {
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) streams: [BorrowedFd<'a>; 3],
    pub(crate) guard: Option<BorrowedFd<'a>>,
    pub(crate) sandbox: Option<BorrowedFd<'a>>,
}

impl Nursery {
    pub(crate) const fn new(
        program: PathBuf,
        name: Option<OsString>,
        leading_args: Vec<OsString>,
    ) -> Self {
        Self { program, name, leading_args, running: Mutex::new(None) }
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

    /// Asks for a shim.
    pub(crate) fn fork(&self, handed: Handed<'_>) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running
            && running.ask(handed).is_ok()
        {
            return Ok(());
        }
        // It was never there, or is there no more: nobody has taken what was handed over.
        let fresh = self.launch()?;
        let asked = fresh.ask(handed);
        *running = Some(fresh);
        asked.map_err(Into::into)
    }

    #[allow(clippy::disallowed_methods)] // This is the place that spawns.
    fn launch(&self) -> io::Result<Running> {
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
        Ok(Running { orders: ours, process })
    }
}

impl Running {
    fn ask(&self, handed: Handed<'_>) -> Result<(), Errno> {
        // Whoever stopped it means no good.
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::CONT);
        }
        let Handed { control, streams: [stdin, stdout, stderr], guard, sandbox } = handed;
        let mut fds = vec![control, stdin, stdout, stderr];
        fds.extend(guard);
        fds.extend(sandbox);
        let what =
            if guard.is_some() { GUARD } else { 0 } | if sandbox.is_some() { SANDBOX } else { 0 };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
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

impl Drop for Running {
    fn drop(&mut self) {
        // It ends when its socket is closed and its last shim has gone, which nobody may have to wait
        // for. Whether it has is only seen here if it was killed.
        let _ = self.process.try_wait();
    }
}
