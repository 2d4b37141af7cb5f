//! The adapter with the real `claude` against a scripted model on loopback, and with fake ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod cancel;
mod conformance;
mod endings;
mod fake;
mod happy;
mod harness;
