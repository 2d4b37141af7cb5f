//! Agents that ask what would become of their work, while everything else goes on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod answers;
mod cuts;
mod notes;
mod survivors;
mod world;
