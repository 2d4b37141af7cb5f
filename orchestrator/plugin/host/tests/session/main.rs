//! Conversations with a plugin that is played by the test.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod calls;
mod faults;
mod plugin;
mod properties;
