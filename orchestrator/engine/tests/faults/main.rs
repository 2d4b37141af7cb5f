//! Every file operation of a whole run made to fail, cut short, or be the last one before a crash: the
//! run always comes to the same end, and nothing that was recorded is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod inbox;
mod injector;
#[path = "../shared/open_run.rs"]
mod open_run;
mod owner;
mod run;
mod scripted;
mod world;
