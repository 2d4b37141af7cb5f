//! The way out: a bounded queue of frames, and a thread that hands them to the host.
//!
//! The host makes that thread wait when it is behind. Nobody else of the plugin has to: who waits for
//! room in the queue is a future.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use plugin_protocol::{EncodeError, LogLevel, LogLine, PluginFrame, encode};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Frames that wait for the host, at most.
const QUEUE: usize = 64;

/// Hands a frame to the host; false when it takes no more.
pub(crate) type Emit = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// Where frames go.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    queue: mpsc::Sender<Vec<u8>>,
    /// Messages of the log that found no room.
    lost: Arc<AtomicU64>,
}

impl Out {
    /// Starts the thread. It drops `at_end` when nothing is left to be sent, or the host takes nothing
    /// any more.
    pub(crate) fn start(mut emit: Emit, at_end: impl Send + 'static) -> std::io::Result<Self> {
        let (queue, mut frames) = mpsc::channel::<Vec<u8>>(QUEUE);
        thread::Builder::new().name("plugin-out".to_owned()).spawn(move || {
            // All that is there at once: those who wait for room are woken once for all of it.
            let mut some = Vec::with_capacity(QUEUE);
            while frames.blocking_recv_many(&mut some, QUEUE) > 0 {
                if !some.drain(..).all(|frame| emit(&frame)) {
                    break;
                }
            }
            drop(frames);
            drop(at_end);
        })?;
        Ok(Self { queue, lost: Arc::default() })
    }

    /// Returns when the host takes nothing any more.
    pub(crate) async fn gone(&self) {
        self.queue.closed().await;
    }

    /// Waits for room.
    pub(crate) async fn send(&self, frame: &PluginFrame) -> Result<(), SendError> {
        let bytes = encode(frame)?;
        self.queue.send(bytes).await.map_err(|_| SendError::Gone)
    }

    /// A message of the log: nobody waits for it, and when there is no room it is only counted.
    pub(crate) fn log(&self, line: LogLine) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > 0 && self.try_log(lost_messages(lost)) {
            self.lost.fetch_sub(lost, Ordering::Relaxed);
        }
        if !self.try_log(line) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn try_log(&self, line: LogLine) -> bool {
        let Ok(bytes) = encode(&PluginFrame::Log(line)) else { return false };
        match self.queue.try_send(bytes) {
            Ok(()) => true,
            // Nobody is there to hear it, nor how many there were.
            Err(TrySendError::Closed(_)) => true,
            Err(TrySendError::Full(_)) => false,
        }
    }
}

/// A frame was not sent.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The host takes nothing any more.
    Gone,
    /// It cannot be said in a frame.
    Frame(EncodeError),
}

impl From<EncodeError> for SendError {
    fn from(error: EncodeError) -> Self {
        Self::Frame(error)
    }
}

fn lost_messages(count: u64) -> LogLine {
    LogLine {
        level: LogLevel::Warn,
        target: env!("CARGO_CRATE_NAME").to_owned(),
        message: format!("{count} messages of the log were lost: the host was behind"),
        fields: serde_json::Map::new(),
        spans: Vec::new(),
    }
}
