//! The `claude-sdk` adapter: drives Claude Code by the two-way protocol of its Agent SDK.
//! Knows neither the engine nor another adapter.
//!
//! One process and one session for each iteration, as with `claude-cli`. Beyond that the session can
//! be spoken to while it runs: it is asked to hand over before its context is full, its claims are
//! validated before it ends, it has tools for claims and notes, and what it must not do is refused
//! with the reason.

mod agent;
mod config;
mod control;
mod policy;
mod session;
#[cfg(test)]
mod transcript_tests;

/// The keys of `[agent.config]`.
pub use config::Table as Keys;
pub use ralph_adapter_common::WriteGuard;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// Builds the adapter from `[agent.config]`; see `docs/user/agents/claude.md` for the keys. Writing tools are
/// refused what `guard` names, in every permission mode.
///
/// The program is looked for here, and if it is not there, again when it is needed: that it is
/// missing is no mistake of the configuration.
///
/// # Errors
/// The first key that is unknown, or whose value is.
pub fn build(
    config: Value,
    context: &BuildContext,
    supervisor: &Supervisor,
    guard: WriteGuard,
) -> Result<Box<dyn Agent>, BuildError> {
    let config = config::Config::parse(config)?;
    Ok(Box::new(agent::ClaudeSdk::new(config, context, supervisor, guard)))
}
