//! Writing to a running process.

use tokio::sync::mpsc;

/// The number of messages that may wait for the process to read them.
const QUEUE: usize = 256;

/// The standard input of a running process; dropping it closes it, once all was written that was
/// [sent](Self::send).
#[derive(Debug)]
pub struct Input {
    queue: mpsc::Sender<Vec<u8>>,
}

/// The process does not read its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process does not read its standard input; {QUEUE} messages wait for it")]
pub struct InputBlocked;

impl Input {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self { queue }, receiver)
    }

    /// Has these bytes written, after all that was sent before, without waiting for it. That the
    /// process has closed its end, or is gone, is no error: its end tells.
    ///
    /// # Errors
    /// Too much waits already.
    pub fn send(&self, bytes: Vec<u8>) -> Result<(), InputBlocked> {
        match self.queue.try_send(bytes) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(InputBlocked),
        }
    }
}
