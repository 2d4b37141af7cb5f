//! The shim's end of the control socket.

use std::io::{self, ErrorKind, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::spec::Stop;
use crate::wire::{JOB, JOB_HEAD, Job, MAX_JOB_BYTES, MAX_JOB_FDS, Report, SANDBOX};

pub(super) struct ControlSocket {
    stream: UnixStream,
    /// Reports that are not sent yet.
    queued: Vec<u8>,
    /// Whether the orchestrator's end is open.
    open: bool,
}

/// A message from the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlMessage {
    Stop(Stop),
    /// The socket was closed: the orchestrator is gone, or has dropped the process.
    Closed,
}

/// A request to start a process tree.
pub(super) struct SpawnRequest {
    pub(super) job: Job,
    /// The leader's standard streams.
    pub(super) streams: [OwnedFd; 3],
    /// A Landlock ruleset that confines the leader.
    pub(super) sandbox: Option<OwnedFd>,
}

impl ControlSocket {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        // A shim never waits for the orchestrator, only for the tree.
        stream.set_nonblocking(true)?;
        Ok(Self { stream, queued: Vec::new(), open: true })
    }

    /// Waits for the next job; `None` when the socket is closed. Orders before it are for an earlier tree,
    /// and ignored.
    pub(super) fn next_job(&mut self) -> Option<SpawnRequest> {
        loop {
            let (byte, fds) = self.receive()?;
            if byte == JOB {
                return self.read_job(fds);
            }
        }
    }

    fn read_job(&mut self, fds: Vec<OwnedFd>) -> Option<SpawnRequest> {
        let mut head = [0; JOB_HEAD - 1];
        self.read_all(&mut head)?;
        let (flags, length) = head.split_first()?;
        let length = u64::from_le_bytes(length.try_into().ok()?);
        if length > MAX_JOB_BYTES {
            return None;
        }
        let mut body = vec![0; usize::try_from(length).ok()?];
        self.read_all(&mut body)?;
        let mut fds = fds.into_iter();
        let streams = [fds.next()?, fds.next()?, fds.next()?];
        let sandbox = if flags & SANDBOX == 0 { None } else { Some(fds.next()?) };
        Some(SpawnRequest { job: Job::decode(&body)?, streams, sandbox })
    }

    /// Receives the next byte, and the descriptors sent with it.
    fn receive(&mut self) -> Option<(u8, Vec<OwnedFd>)> {
        let mut byte = [0];
        loop {
            self.wait();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_JOB_FDS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(&mut byte)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&self.stream, &mut slices, &mut ancillary, flags) {
                Ok(message) if message.bytes > 0 => {}
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Ok(_) | Err(_) => {
                    self.open = false;
                    return None;
                }
            }
            let mut fds = Vec::new();
            for part in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = part {
                    fds.extend(rights);
                }
            }
            return Some((byte[0], fds));
        }
    }

    fn read_all(&mut self, mut bytes: &mut [u8]) -> Option<()> {
        while !bytes.is_empty() {
            // Mostly all of it is there.
            match self.stream.read(bytes) {
                Ok(read @ 1..) => bytes = bytes.get_mut(read..)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait(),
                Ok(0) | Err(_) => {
                    self.open = false;
                    return None;
                }
            }
        }
        Some(())
    }

    /// Waits until the socket is readable. A failed wait is harmless: the read follows anyway.
    fn wait(&self) {
        let _ = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], None);
    }

    /// Sends a report, after those that are queued.
    pub(super) fn send(&mut self, report: &Report) {
        self.queue(report);
        self.flush();
    }

    /// Queues a report, to be sent with the next one, so that the orchestrator wakes once.
    pub(super) fn queue(&mut self, report: &Report) {
        if let Ok(line) = serde_json::to_vec(report) {
            self.queued.extend_from_slice(&line);
            self.queued.push(b'\n');
        }
    }

    /// Sends what is queued. Errors are ignored: an orchestrator that is gone needs none.
    pub(super) fn flush(&mut self) {
        if !self.queued.is_empty() {
            let _ = self.stream.write_all(&self.queued);
            self.queued.clear();
        }
    }

    /// Whether the orchestrator's end is open.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the descriptor to poll; `None` once the socket is closed.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.stream.as_fd())
    }

    /// Receives the strongest message since the last call.
    pub(super) fn receive_message(&mut self) -> Option<ControlMessage> {
        if !self.open {
            return None;
        }
        let mut strongest = None;
        let mut bytes = [0; 16];
        while self.open {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    let orders = bytes.iter().take(n).filter_map(|b| Stop::from_order(*b));
                    strongest = strongest.max(orders.max());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.open = false,
            }
        }
        match strongest {
            // After the end of the socket no more can be received: a kill before it must not be lost.
            Some(Stop::Kill) => Some(ControlMessage::Stop(Stop::Kill)),
            _ if !self.open => Some(ControlMessage::Closed),
            stop => stop.map(ControlMessage::Stop),
        }
    }
}
