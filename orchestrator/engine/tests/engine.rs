//! Whole runs in memory or a temporary folder, with agents and validators that a test writes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod faults;
mod in_session_validation;
#[path = "shared/open_run.rs"]
mod open_run;
