//! The adapter with the real `codex` against a scripted model on loopback, and with fake ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod cancel;
mod conformance;
mod endings;
mod happy;
mod harness;
