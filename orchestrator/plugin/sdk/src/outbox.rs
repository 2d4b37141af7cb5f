//! A bounded queue of frames, and the thread that sends them to the host.
//!
//! Only that thread blocks when the host is slow; everything else waits for room in the queue
//! asynchronously.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ralph_orchestrator_plugin_protocol::{EncodeError, LogLevel, LogLine, PluginFrame, encode};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The capacity of the queue.
const QUEUE: usize = 64;

/// Sends a frame to the host. Returns false if the host accepts no more.
pub(crate) type Emit = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// The queue of frames for the host.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    queue: mpsc::Sender<Vec<u8>>,
    /// The number of log messages dropped because the queue was full.
    dropped: Arc<AtomicU64>,
}

impl Outbox {
    /// Starts the thread. It drops `at_end` when the queue is closed, or the host accepts no more.
    pub(crate) fn start(mut emit: Emit, at_end: impl Send + 'static) -> std::io::Result<Self> {
        let (queue, mut frames) = mpsc::channel::<Vec<u8>>(QUEUE);
        thread::Builder::new().name("plugin-out".to_owned()).spawn(move || {
            // In batches: senders that wait for room wake once per batch.
            let mut batch = Vec::with_capacity(QUEUE);
            while frames.blocking_recv_many(&mut batch, QUEUE) > 0 {
                if !batch.drain(..).all(|frame| emit(&frame)) {
                    break;
                }
            }
            drop(frames);
            drop(at_end);
        })?;
        Ok(Self { queue, dropped: Arc::default() })
    }

    /// Waits until the host accepts no more.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Sends a frame; waits for room.
    pub(crate) async fn send(&self, frame: &PluginFrame) -> Result<(), SendError> {
        let bytes = encode(frame)?;
        self.queue.send(bytes).await.map_err(|_| SendError::Disconnected)
    }

    /// Sends a log message without waiting. If there is no room, it is dropped and counted.
    pub(crate) fn log(&self, line: LogLine) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 && self.try_log(dropped_messages(dropped)) {
            self.dropped.fetch_sub(dropped, Ordering::Relaxed);
        }
        if !self.try_log(line) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn try_log(&self, line: LogLine) -> bool {
        let Ok(bytes) = encode(&PluginFrame::Log(line)) else { return false };
        match self.queue.try_send(bytes) {
            Ok(()) => true,
            // The host is gone, so the count does not matter either.
            Err(TrySendError::Closed(_)) => true,
            Err(TrySendError::Full(_)) => false,
        }
    }
}

/// Why a frame was not sent.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The host accepts no more.
    Disconnected,
    /// It cannot be encoded.
    Encode(EncodeError),
}

impl From<EncodeError> for SendError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

fn dropped_messages(count: u64) -> LogLine {
    LogLine {
        level: LogLevel::Warn,
        target: env!("CARGO_CRATE_NAME").to_owned(),
        message: format!("{count} log messages were dropped because the host was slow"),
        fields: serde_json::Map::new(),
        spans: Vec::new(),
    }
}
