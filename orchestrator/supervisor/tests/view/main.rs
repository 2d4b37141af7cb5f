//! Process trees with a view of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

#[allow(dead_code)] // The other tests need the rest.
#[path = "../it/common.rs"]
mod common;
mod files;
mod fixture;
mod layers;
mod processes;
mod sandbox;
mod support;
