//! What is said about the parts of work, with checks that are predicates and with real ones.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod costs;
mod false_statements;
mod fixture;
mod programs;
mod properties;
