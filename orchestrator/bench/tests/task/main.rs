//! Tasks as their users write them, and as an enemy would.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

mod dockerfile;
mod forms;
mod harbor;
mod hostile;
mod obstacles;
mod own_set;
mod rewards;
mod scratch;
mod verification;
