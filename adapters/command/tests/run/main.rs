//! The adapter with real programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod cancel;
mod conformance;
mod delivery;
mod endings;
mod floods;
mod outputs;
mod support;
