//! The orchestrator's end of the control socket.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

use crate::fork_server::IdleShim;
use crate::keepers::Keepers;
use crate::kill_switch::{KillSwitch, Link};
use crate::spec::Stop;
use crate::wire::{JOB, MAX_JOB_FDS, Report, SANDBOX};

/// Room for the reports of an uneventful job, in bytes.
const REPORTS: usize = 256;

/// The orchestrator's end. Closing it ends the tree.
#[derive(Debug)]
pub(crate) struct Control {
    /// `None` once it was released.
    stream: Option<UnixStream>,
    /// Lets a switch reach the shim, too.
    switched: Option<Arc<Link>>,
    /// Known once the shim has started a leader.
    keepers: Option<Keepers>,
    /// What came and is not yet a whole line.
    buffer: Vec<u8>,
}

impl Control {
    /// Creates a socket pair; returns the shim's end too.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self::over(ours, None)?, theirs.into()))
    }

    /// Connects to an idle shim.
    pub(crate) fn over_idle(idle: IdleShim) -> io::Result<Self> {
        Self::over(idle.control, idle.keepers)
    }

    fn over(stream: std::os::unix::net::UnixStream, keepers: Option<Keepers>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = Some(UnixStream::from_std(stream)?);
        Ok(Self { stream, switched: None, keepers, buffer: Vec::with_capacity(REPORTS) })
    }

    /// Sends a job, encoded by [`Job::encode`](crate::wire::Job::encode), and then connects the kill switch:
    /// earlier orders are for another tree. A shim that is gone is noticed by the next read.
    pub(crate) async fn begin(
        &mut self,
        job: &[u8],
        streams: [BorrowedFd<'_>; 3],
        ruleset: Option<BorrowedFd<'_>>,
        switch: Option<&KillSwitch>,
    ) -> io::Result<()> {
        let Some(stream) = self.stream.as_mut() else { return Ok(()) };
        let mut message = vec![JOB, if ruleset.is_some() { SANDBOX } else { 0 }];
        message.extend(u64::try_from(job.len()).unwrap_or(u64::MAX).to_le_bytes());
        let fds: Vec<BorrowedFd<'_>> = streams.into_iter().chain(ruleset).collect();
        // In one message, so that the shim wakes once.
        message.extend_from_slice(job);
        // At once, instead of when the runtime has found out that there is room: what else is to be done meanwhile
        // need not come first.
        let sent = match send(stream, &message, &fds) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.async_io(Interest::WRITABLE, || send(stream, &message, &fds)).await
            }
            sent => sent,
        };
        if let Ok(sent) = sent {
            let _ = stream.write_all(message.get(sent..).unwrap_or_default()).await;
        }
        self.switched = switch.map(|switch| switch.join(stream.as_fd())).transpose()?;
        Ok(())
    }

    /// Releases the socket for another job, unless unexpected data was received or it failed.
    pub(crate) fn release(&mut self, guard: Option<Arc<File>>) -> Option<IdleShim> {
        let stream = self.stream.take().filter(|_| self.buffer.is_empty())?;
        self.switched = None;
        let control = stream.into_std().ok()?;
        Some(IdleShim { control, guard, keepers: self.keepers.take() })
    }

    /// Sets the pid of the shim, which has just reported it.
    pub(crate) fn set_shim(&mut self, pid: i32) {
        if !self.keepers.as_ref().is_some_and(|keepers| keepers.is_shim(pid)) {
            self.keepers = Keepers::of(pid);
        }
        if let Some((link, keepers)) = self.switched.as_ref().zip(self.keepers.clone()) {
            // It is a new one.
            let _ = link.keepers.set(keepers);
        }
    }

    /// Returns those who end the tree, if they are known.
    pub(crate) const fn keepers(&self) -> Option<&Keepers> {
        self.keepers.as_ref()
    }

    /// Returns the next report; `None` when the shim is gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(report) => return Some(report),
                    // The peer is not a shim.
                    Err(_) => self.stream = None,
                }
            }
            let stream = self.stream.as_mut()?;
            match stream.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => self.stream = None,
                Ok(_) => {}
            }
        }
    }

    /// Sends a stop. A shim that is gone needs none.
    pub(crate) fn order(&self, stop: Stop) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if let Some(stream) = &self.stream {
            let _ = rustix::net::send(stream.as_fd(), &[stop.order()], flags);
        }
    }
}

impl Drop for Control {
    /// A shim that is stopped would never see the end of its socket.
    fn drop(&mut self) {
        if let Some(keepers) = &self.keepers {
            keepers.end_stopped();
        }
    }
}

/// Sends bytes with descriptors, and returns the number of bytes.
fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_JOB_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
}
