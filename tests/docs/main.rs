//! The documentation: references are what the program says of itself, commands run, links lead somewhere.
//!
//! `UPDATE_DOCS=1 cargo test --test docs` writes everything that is generated; without the variable what is
//! there has to be the same.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::string_slice,
    missing_docs
)]

mod architecture;
mod circles;
mod configuration;
mod events;
mod generated;
mod links;
mod package;
mod pages;
mod picture;
mod requirements;
mod scratch;
