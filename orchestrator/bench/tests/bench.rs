//! Jobs, tasks and figures from outside, in one program: each would be linked with everything else.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod job;
mod statistics;
mod summary;
mod task;
