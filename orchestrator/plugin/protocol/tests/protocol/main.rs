//! The frames from outside: as bytes, and against their schema.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod documentation;
mod frames;
mod schema;
