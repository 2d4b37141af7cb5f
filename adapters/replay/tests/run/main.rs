//! The adapter with recorded sessions and a real shell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod conformance;
mod hello;
mod perform;
mod support;
