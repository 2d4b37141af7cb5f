//! What adapters have in common, from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod agent_tools;
mod claude_stream;
