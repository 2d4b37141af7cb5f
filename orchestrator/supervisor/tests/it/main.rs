//! Real processes, in every way they can be difficult.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod adopted;
mod common;
mod find;
mod host;
mod io;
mod spawn;
mod stop;
mod stopped;
mod text;
mod threads;
mod tree;
mod wrapper;
