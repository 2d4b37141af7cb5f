//! Validation within a session: agents that ask for a preview of the verdict while the run goes on.
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
#[path = "../shared/open_run.rs"]
mod open_run;
mod survivors;
mod world;
