//! The engine of ralph-orchestrator.
//!
//! Without default features only [`contract`] is left: the traits that an agent, a completion
//! detector or an evidence validator implements, and the types they exchange. They need no async
//! runtime. With the `engine` feature (default) the crate also has the pure state machine, the
//! journal, the configuration and the driver that turns them into a loop.

pub mod contract;

#[cfg(feature = "engine")]
pub mod config;
#[cfg(feature = "engine")]
pub mod engine;
#[cfg(feature = "engine")]
pub mod machine;
#[cfg(feature = "engine")]
pub mod registry;
#[cfg(feature = "engine")]
pub mod state;
#[cfg(feature = "engine")]
pub mod workspace;
