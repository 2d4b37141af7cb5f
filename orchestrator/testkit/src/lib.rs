//! Provides fake agents and a harness for tests of adapters. For development only: everything here panics on failure.
#![allow(clippy::expect_used, clippy::panic)]

pub mod agent_harness;
pub mod fake_agent;
pub mod flood;
pub mod shim;

mod real_agents;
mod test_workspace;

pub use ralph_orchestrator_conformance as conformance;
pub use ralph_orchestrator_conformance::{
    BusyTool, RecordingSink, agent_env, model_server, processes,
};
pub use real_agents::{claude_agent_acp, claude_binary, codex_acp, codex_binary};
pub use test_workspace::TestWorkspace;
