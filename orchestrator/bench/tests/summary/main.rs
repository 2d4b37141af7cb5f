//! Jobs summed up: by hand where it can be counted, and at every edge.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod comparisons;
mod figures;
mod fixtures;
mod properties;
mod rounds;
