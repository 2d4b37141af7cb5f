//! Fake agents and a loopback model server for tests.
//!
//! Everything here is for tests and panics, with what to do, when something is not as it should be.
#![allow(clippy::expect_used, clippy::panic)]

pub mod fake_agent;
pub mod iteration;
pub mod model_server;
pub mod shim;

mod installed;

pub use installed::claude_binary;
