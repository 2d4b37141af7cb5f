//! The shim's end of the control socket.

use std::io::{self, ErrorKind, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::spec::Stop;
use crate::wire::{JOB, JOB_HEAD, Job, LONGEST_JOB, MOST_JOB_FDS, Report, SANDBOX};

pub(super) struct Link {
    stream: UnixStream,
    /// Whether the orchestrator's end is open.
    open: bool,
}

/// What came from the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Order(Stop),
    /// It has gone, or wants no more of the tree.
    End,
}

/// A job with what belongs to it.
pub(super) struct Handed {
    pub(super) job: Job,
    /// The leader's standard streams.
    pub(super) streams: [OwnedFd; 3],
    /// A ruleset to confine the leader with.
    pub(super) sandbox: Option<OwnedFd>,
}

impl Link {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        // A shim never waits for the orchestrator, but for the tree.
        stream.set_nonblocking(true)?;
        Ok(Self { stream, open: true })
    }

    /// Waits for the next job; `None` when no more can come. What comes before it is for a tree that
    /// has gone.
    pub(super) fn next_job(&mut self) -> Option<Handed> {
        loop {
            let (byte, fds) = self.receive()?;
            if byte == JOB {
                return self.rest_of_job(fds);
            }
        }
    }

    fn rest_of_job(&mut self, fds: Vec<OwnedFd>) -> Option<Handed> {
        let mut head = [0; JOB_HEAD - 1];
        self.read_all(&mut head)?;
        let (what, length) = head.split_first()?;
        let length = u64::from_le_bytes(length.try_into().ok()?);
        if length > LONGEST_JOB {
            return None;
        }
        let mut body = vec![0; usize::try_from(length).ok()?];
        self.read_all(&mut body)?;
        let mut fds = fds.into_iter();
        let streams = [fds.next()?, fds.next()?, fds.next()?];
        let sandbox = if what & SANDBOX == 0 { None } else { Some(fds.next()?) };
        Some(Handed { job: Job::decode(&body)?, streams, sandbox })
    }

    /// The next byte, and the descriptors that come with it.
    fn receive(&mut self) -> Option<(u8, Vec<OwnedFd>)> {
        let mut byte = [0];
        loop {
            self.wait();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_JOB_FDS))];
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
            self.wait();
            match self.stream.read(bytes) {
                Ok(read @ 1..) => bytes = bytes.get_mut(read..)?,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Ok(0) | Err(_) => {
                    self.open = false;
                    return None;
                }
            }
        }
        Some(())
    }

    /// Waits until there is something to read. A failed wait is like one that found something.
    fn wait(&self) {
        let _ = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], None);
    }

    /// Reports, if anybody is there to hear it: an orchestrator that has gone has no use for it.
    pub(super) fn send(&mut self, report: &Report) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            let _ = self.stream.write_all(&line);
        }
    }

    /// Whether the orchestrator is there.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// The descriptor to poll for what may be heard; `None` once the end was heard.
    pub(super) fn to_poll(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.stream.as_fd())
    }

    /// The strongest of what was said since the last call.
    pub(super) fn hear(&mut self) -> Option<Heard> {
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
            // After the end nothing is heard any more, so a kill on the way must not be lost to it.
            Some(Stop::Kill) => Some(Heard::Order(Stop::Kill)),
            _ if !self.open => Some(Heard::End),
            order => order.map(Heard::Order),
        }
    }
}
