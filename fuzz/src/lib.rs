//! What has to hold for any bytes.
//!
//! Each module has one function `check`, which takes any bytes and panics if a promise does not hold
//! for them. `fuzz_targets` hands them to libFuzzer; `corpus` runs them as an ordinary test, on the
//! seeds in `corpus-seeds` and on a fixed number of mutations of each.

pub mod capture;
pub mod claude_stream;
pub mod codex_stream;
pub mod config;
pub mod evidence;
pub mod git_index;
pub mod journal;
pub mod latch;
pub mod lines;
pub mod machine;
pub mod marker;
pub mod opencode;
pub mod promise;
pub mod state;

mod bytes;
#[cfg(test)]
mod corpus;
mod detector;
mod edit;
mod folder;
mod records;
mod streams;
