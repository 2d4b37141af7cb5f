//! The real `claude` under the adapter, against a model on loopback; and what imitates it badly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod cancel;
mod conformance;
mod endings;
mod faults;
mod guidance;
mod handoff;
mod happy;
mod harness;
mod refusals;
mod validation;
