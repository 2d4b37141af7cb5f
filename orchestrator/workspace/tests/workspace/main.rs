//! The workspace as the engine sees it, with real files and the real git.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod changes;
mod clone_differences;
mod git;
mod manifest;
mod outer_rules;
mod prompt;
mod protected;
mod support;
mod template;
mod tree;
mod uncommitted;
mod unprivileged;
mod watch;
