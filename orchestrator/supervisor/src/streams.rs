//! What a process tree prints, as it comes.

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::unix::pipe::Receiver;

/// The most that a [`Chunk`] holds, in bytes: a pipe of the usual size, at once.
const CHUNK: usize = 64 * 1024;

/// Where something was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of what was printed, cut anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where it was printed.
    pub stream: Stream,
    /// At least one byte, at most 64 KiB.
    pub bytes: Vec<u8>,
}

/// Both streams of a tree.
#[derive(Debug)]
pub(crate) struct Streams {
    stdout: Source<Receiver>,
    stderr: Source<Receiver>,
}

impl Streams {
    pub(crate) fn new(stdout: Receiver, stderr: Receiver) -> Self {
        Self { stdout: Source::new(stdout), stderr: Source::new(stderr) }
    }

    /// Whether both streams ended, or were closed.
    pub(crate) fn ended(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    pub(crate) fn close(&mut self) {
        self.stdout.pipe = None;
        self.stderr.pipe = None;
    }

    /// The next piece from whichever stream has one; `None` when both have ended. Nothing is lost when
    /// the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Chunk> {
        while !self.ended() {
            let (stream, bytes) = tokio::select! {
                bytes = self.stdout.next(), if self.stdout.pipe.is_some() => (Stream::Stdout, bytes),
                bytes = self.stderr.next(), if self.stderr.pipe.is_some() => (Stream::Stderr, bytes),
            };
            if let Some(bytes) = bytes {
                return Some(Chunk { stream, bytes });
            }
        }
        None
    }
}

#[derive(Debug)]
struct Source<R> {
    pipe: Option<R>,
    /// Reused, so that a piece costs no more memory than it holds.
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Source<R> {
    fn new(pipe: R) -> Self {
        Self { pipe: Some(pipe), buffer: Vec::with_capacity(CHUNK) }
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        let pipe = self.pipe.as_mut()?;
        self.buffer.clear();
        let mut limited = pipe.take(CHUNK as u64);
        match limited.read_buf(&mut self.buffer).await {
            Ok(1..) => Some(self.buffer.clone()),
            // A pipe that cannot be read has nothing more to give.
            Ok(0) | Err(_) => {
                self.pipe = None;
                None
            }
        }
    }
}
