//! The shim's end of the control socket.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

use crate::spec::Stop;
use crate::wire::Report;

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

impl Link {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        // A shim never waits for the orchestrator, but for the tree.
        stream.set_nonblocking(true)?;
        Ok(Self { stream, open: true })
    }

    /// Reports, if anybody is there to hear it: an orchestrator that has gone has no use for it.
    pub(super) fn send(&mut self, report: &Report) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            let _ = self.stream.write_all(&line);
        }
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
