//! Real plugins: built as their authors would build them, inside of this process and in one of their
//! own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod apart;
mod built;
mod example;
mod hostile;
mod inside;
mod rig;
mod served;
mod talk;
