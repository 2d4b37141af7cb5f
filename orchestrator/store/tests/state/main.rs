//! The state on disk: a crash is recovered from, any change from outside is noticed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod damage;
mod deletion;
mod held;
mod orphans;
mod run_reader;
mod support;
