//! The orchestrator's end of the control socket.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::net::SendFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::kill_switch::KillSwitch;
use crate::spec::Stop;
use crate::wire::Report;

/// While it is open, the tree may live.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    /// Lets a switch reach the shim, too.
    switched: Option<Arc<OwnedFd>>,
    /// What came and is not yet a whole line.
    buffer: Vec<u8>,
    closed: bool,
}

impl Control {
    /// A new socket, and the shim's end of it.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let stream = UnixStream::from_std(ours)?;
        Ok((Self { stream, switched: None, buffer: Vec::new(), closed: false }, theirs.into()))
    }

    /// Sends the job, as [`Job::encode`](crate::wire::Job::encode) wrote it, and only then lets the
    /// switch give orders.
    pub(crate) async fn begin(
        &mut self,
        job: &[u8],
        switch: Option<&KillSwitch>,
    ) -> io::Result<()> {
        // A shim that has gone is noticed when it is listened to.
        let _ = self.stream.write_all(job).await;
        self.switched = switch.map(|switch| switch.join(self.stream.as_fd())).transpose()?;
        Ok(())
    }

    /// The next report; `None` when the shim has gone. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(report) => return Some(report),
                    // Whatever writes this is no shim.
                    Err(_) => self.closed = true,
                }
            }
            if self.closed {
                return None;
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => self.closed = true,
                Ok(_) => {}
            }
        }
    }

    /// Gives an order. A shim that has gone needs none.
    pub(crate) fn order(&self, stop: Stop) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(self.stream.as_fd(), &[stop.order()], flags);
    }
}
