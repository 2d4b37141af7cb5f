//! What moves frames between the host and a plugin.

/// Frames and other news that wait for the session, at most.
pub const QUEUE: usize = 64;

/// Moves frames to a plugin. What comes from it is an [`Inbound`] in a bounded channel of [`QUEUE`]
/// places, made beside the carrier: whoever fills it waits while it is full, which is the
/// backpressure.
pub trait Carrier: Send + Sync {
    /// Hands a frame over: its bytes without the end of a line. Never waits.
    ///
    /// # Errors
    /// The plugin is gone, or does not take what it is sent.
    fn send(&self, frame: Vec<u8>) -> Result<(), Gone>;

    /// Whether frames that come too late are to be borne: the plugin cannot be ended and begun again.
    fn lasts(&self) -> bool {
        false
    }
}

/// Nothing can be sent any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Gone(pub String);

/// What comes from a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A frame: its bytes without the end of a line.
    Frame(Vec<u8>),
    /// A frame that was too long to be kept.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
    },
    /// A line of its standard error.
    Stderr(String),
    /// It is gone, and how, such as `exit 1`. The last that comes.
    Ended(String),
}
