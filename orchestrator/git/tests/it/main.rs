//! The crate with real git: repositories are compared ref by ref, reflog by reflog, byte by byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests, and git is what they run"
)]

mod checkpoints;
mod commits;
mod faults;
mod fixture;
mod histories;
mod hostile;
mod ignored;
mod merges;
mod rollbacks;
mod states;
mod worktrees;
