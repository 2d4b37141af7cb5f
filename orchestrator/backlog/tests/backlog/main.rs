//! What the crate promises, on real files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

mod fixture;
mod formats;
mod guard;
mod json;
mod order;
mod paths;
mod plan_md;
mod properties;
#[cfg(feature = "sqlite")]
mod sqlite;
mod unwritten;
