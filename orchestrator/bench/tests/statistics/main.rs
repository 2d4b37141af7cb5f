//! The statistics against scipy and statsmodels, by counting, by simulation and by properties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod edges;
mod properties;
mod reference;
mod simulation;
