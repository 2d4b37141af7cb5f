//! Libraries: what their files may be, how they are copied and loaded.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod bad_content;
mod bad_files;
mod c;
#[path = "../common/mod.rs"]
mod common;
mod copies;
mod mutants;
