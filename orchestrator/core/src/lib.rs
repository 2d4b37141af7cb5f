//! The engine of ralph-orchestrator: a pure state machine, the journal that it is a fold of, and the
//! driver that turns them into a loop.
//!
//! Knows no adapter, no validator and no terminal: those come in through the traits of
//! `ralph-orchestrator-contract` and through [`registry`].

pub mod engine;
pub mod machine;
pub mod registry;
pub mod store;
pub mod trajectory;
pub mod workspace;
pub mod workspace_setup;
