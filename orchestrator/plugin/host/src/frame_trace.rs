//! What passes between the host and a plugin, for the plugin's author to see.

use std::sync::Arc;

use crate::transport::Inbound;

/// A message that passes.
#[derive(Clone, Copy, Debug)]
pub enum TracedMessage<'a> {
    /// A frame of the host, without its line end.
    Sent(&'a [u8]),
    /// A message of the plugin.
    Received(&'a Inbound),
}

/// Is given each message, in order, before it is acted on.
pub type FrameTrace = Arc<dyn Fn(TracedMessage<'_>) + Send + Sync>;
