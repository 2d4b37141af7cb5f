//! Real agents under the adapter, against a model on loopback; and one that imitates them badly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod cancel;
mod conformance;
mod endings;
mod faults;
mod happy;
mod harness;
mod permissions;
