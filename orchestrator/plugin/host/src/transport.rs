//! The transport that moves frames between the host and a plugin.

/// The capacity of the channel of [`Inbound`] messages.
pub const INBOUND_QUEUE: usize = 64;

/// Sends frames to a plugin. What the plugin sends arrives as [`Inbound`] messages in a bounded channel
/// of [`INBOUND_QUEUE`] places, created beside the transport: a full channel blocks the reader, which is
/// the backpressure.
pub trait Transport: Send + Sync {
    /// Queues a frame, given without its line end. Never waits.
    ///
    /// # Errors
    /// The plugin is gone, or does not read its input.
    fn send(&self, frame: Vec<u8>) -> Result<(), TransportClosed>;
}

/// Nothing can be sent any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportClosed(pub String);

/// A message from a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A frame, without its line end.
    Frame(Vec<u8>),
    /// A frame that is too long to keep. Its end may not have come yet.
    TooLong {
        /// Its length so far, in bytes.
        bytes: u64,
    },
    /// A line of its standard error.
    Stderr(String),
    /// The process ended, and how, such as `exit 1`. The last message.
    Ended(String),
}
