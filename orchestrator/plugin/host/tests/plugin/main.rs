//! Real plugins, built as their authors would build them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod built;
#[path = "../common/mod.rs"]
mod common;
mod example;
mod harness;
mod host_process;
mod hostile;
mod process;
mod sdk;
mod session;
