//! Prints without blocking the caller.
//!
//! A reader that does not read blocks whoever writes to it, for as long as it likes. So a thread of its
//! own does the writing, from a queue of bounded size. What finds the queue full, and no reader at work,
//! is dropped and counted; a line reports how much was dropped.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::bounded_file::BoundedFile;

/// Most bytes that wait for the reader.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Bytes written at once.
const PIECE: usize = 64 * 1024;
/// How long a line waits for room as long as the reader reads: then it is the reader that sets the pace.
const WAIT: Duration = Duration::from_millis(20);
/// A reader that took nothing for so long does not read.
const READING: Duration = Duration::from_secs(1);

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What becomes of a line for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// It is dropped.
    Drop,
    /// It is kept: of these there are few.
    Keep,
}

/// Says how many lines were dropped.
pub type DroppedMessage = Box<dyn Fn(u64) -> String + Send + Sync>;

/// The queue of one reader, and the thread that serves it.
pub struct Writer {
    queue: Mutex<Queue>,
    /// There is something to write.
    filled: Condvar,
    /// Something was written.
    written: Condvar,
    dropped_message: DroppedMessage,
}

struct Queue {
    lines: VecDeque<(Stream, Vec<u8>)>,
    /// Bytes of these, and of those that are being written.
    bytes: usize,
    /// Lines that are being written.
    being_written: u64,
    /// Dropped lines that were not reported yet.
    dropped: u64,
    /// All of them.
    dropped_ever: u64,
    /// When the reader last took something, or had nothing to take.
    progress: Instant,
    /// Streams without a reader.
    closed: [bool; 2],
    serving: bool,
    /// How many wait for room, or for all to be written.
    waiting: usize,
}

/// Where everything goes that is written from now on, once a run has let go of its terminal.
static DIVERTED: OnceLock<Mutex<BoundedFile>> = OnceLock::new();

/// Everything goes to this file from now on, and so does what others print to standard output and error.
pub fn divert(file: BoundedFile) -> io::Result<()> {
    redirect(&file)?;
    // Nobody diverts twice.
    let _ = DIVERTED.set(Mutex::new(file));
    Ok(())
}

fn redirect(file: &BoundedFile) -> io::Result<()> {
    rustix::stdio::dup2_stdout(file.file())?;
    Ok(rustix::stdio::dup2_stderr(file.file())?)
}

fn divert_bytes(file: &Mutex<BoundedFile>, bytes: &[u8]) -> io::Result<()> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    if file.append(bytes)? { redirect(&file) } else { Ok(()) }
}

impl Writer {
    /// Returns a writer that says with this message what it had to drop.
    pub fn new(dropped_message: DroppedMessage) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(Queue {
                lines: VecDeque::new(),
                bytes: 0,
                being_written: 0,
                dropped: 0,
                dropped_ever: 0,
                progress: Instant::now(),
                closed: [false; 2],
                serving: false,
                waiting: 0,
            }),
            filled: Condvar::new(),
            written: Condvar::new(),
            dropped_message,
        })
    }

    /// Hands over bytes to be written, most often a line. Waits no longer than a moment.
    pub fn push(self: &Arc<Self>, stream: Stream, bytes: Vec<u8>, overflow: Overflow) {
        let mut queue = self.lock();
        if queue.is_closed(stream) {
            return;
        }
        if overflow == Overflow::Drop && !queue.has_room(bytes.len()) {
            queue = self.wait_for_room(queue, bytes.len());
            if !queue.has_room(bytes.len()) {
                queue.dropped = queue.dropped.saturating_add(1);
                queue.dropped_ever = queue.dropped_ever.saturating_add(1);
                return;
            }
        }
        let dropped = std::mem::take(&mut queue.dropped);
        if dropped > 0 {
            queue.add(stream, (self.dropped_message)(dropped).into_bytes());
        }
        queue.add(stream, bytes);
        let serving = std::mem::replace(&mut queue.serving, true);
        drop(queue);
        self.filled.notify_one();
        if !serving {
            self.serve();
        }
    }

    /// Waits until all is written, as long as the reader takes something at least every `patience`,
    /// counted from `began` at the earliest. Returns how many lines the reader has missed.
    pub fn drain(&self, began: Instant, patience: impl Fn() -> Duration) -> u64 {
        let mut queue = self.lock();
        loop {
            let left = queue.left();
            let waited = Instant::now().saturating_duration_since(queue.progress.max(began));
            let rest = patience().saturating_sub(waited);
            if left == 0 || rest.is_zero() {
                return queue.dropped_ever.saturating_add(left);
            }
            // Patience may come to an end while it is waited.
            let rest = rest.min(WAIT);
            queue = self.wait_a_while(queue, rest);
        }
    }

    /// Waits until something was written, but no longer than that.
    fn wait_a_while<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue>,
        most: Duration,
    ) -> MutexGuard<'a, Queue> {
        queue.waiting += 1;
        let waited = self.written.wait_timeout(queue, most);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.waiting -= 1;
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_room<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue>,
        bytes: usize,
    ) -> MutexGuard<'a, Queue> {
        let until = Instant::now() + WAIT;
        while !queue.has_room(bytes) && queue.progress.elapsed() < READING {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self.wait_a_while(queue, left);
        }
        queue
    }

    /// Starts the thread that writes. Without one everything is dropped, which is counted.
    fn serve(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let work = move || {
            let mut buffer = Vec::with_capacity(PIECE);
            loop {
                let stream = this.take(&mut buffer);
                this.write(stream, &buffer);
                let mut queue = this.lock();
                queue.bytes = queue.bytes.saturating_sub(buffer.len());
                queue.being_written = 0;
                queue.progress = Instant::now();
                let awaited = queue.waiting > 0;
                drop(queue);
                // Waking without waiters would still be a system call.
                if awaited {
                    this.written.notify_all();
                }
            }
        };
        drop(std::thread::Builder::new().name("output".to_owned()).spawn(work));
    }

    /// The next lines for one stream, as many as are written at once.
    fn take(&self, buffer: &mut Vec<u8>) -> Stream {
        buffer.clear();
        let mut queue = self.lock();
        let stream = loop {
            match queue.lines.front() {
                Some((stream, _)) => break *stream,
                None => queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        };
        while let Some((next, line)) = queue.lines.front()
            && *next == stream
            && (buffer.is_empty() || buffer.len().saturating_add(line.len()) <= PIECE)
        {
            buffer.extend_from_slice(line);
            queue.lines.pop_front();
            queue.being_written = queue.being_written.saturating_add(1);
        }
        stream
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        if let Some(file) = DIVERTED.get() {
            // There is no other place to say that it cannot be written.
            drop(divert_bytes(file, bytes));
            return self.progressed();
        }
        let result = match stream {
            Stream::Stdout => write_all(io::stdout().as_fd(), bytes, || self.progressed()),
            Stream::Stderr => write_all(io::stderr().as_fd(), bytes, || self.progressed()),
        };
        if result.is_err() {
            self.lock().close(stream);
        }
    }

    fn progressed(&self) {
        self.lock().progress = Instant::now();
    }
}

impl Queue {
    const fn is_closed(&self, stream: Stream) -> bool {
        let [stdout, stderr] = self.closed;
        match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        }
    }

    /// Drops the queue of a stream without a reader, which is not an error.
    fn close(&mut self, stream: Stream) {
        let [stdout, stderr] = &mut self.closed;
        *(match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        }) = true;
        self.lines.retain(|(other, _)| *other != stream);
        self.bytes = self.lines.iter().map(|(_, line)| line.len()).sum();
    }

    const fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= MOST_BYTES
    }

    fn add(&mut self, stream: Stream, bytes: Vec<u8>) {
        if self.left() == 0 {
            // The reader had nothing to take until now.
            self.progress = Instant::now();
        }
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.lines.push_back((stream, bytes));
    }

    fn left(&self) -> u64 {
        u64::try_from(self.lines.len()).unwrap_or(u64::MAX).saturating_add(self.being_written)
    }
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8], progressed: impl Fn()) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        match rustix::io::write(fd, piece) {
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                progressed();
            }
            Err(Errno::INTR) => {}
            // Whoever started the program may have made it so.
            Err(Errno::AGAIN) => {
                let ready = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&ready));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
