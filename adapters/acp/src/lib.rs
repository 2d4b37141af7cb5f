//! The `acp` adapter: drives any agent that speaks the Agent Client Protocol on its standard streams.
//! Knows neither the engine nor another adapter.
//!
//! One process and one fresh session for each iteration. The official crate holds the conversation:
//! requests, their answers, and what the agent asks. What the agent reports of its work is read here,
//! line by line as it comes, since the crate would queue without bound what nobody has read yet.
//!
//! The agent is offered neither a file system nor terminals: it uses its own, under the orchestrator's
//! sandbox.

mod agent;
mod client;
mod config;
mod failure;
mod permission;
mod session;
mod updates;

/// The keys of `[agent.config]`.
pub use config::Config as Keys;
pub use ralph_adapter_common::WriteGuard;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// Builds the adapter from `[agent.config]`.
///
/// | key | default | |
/// |---|---|---|
/// | `program` | `["claude-agent-acp"]` | a name looked for in `PATH`, or a path, and its arguments |
/// | `mode` | the agent's own | id of the session mode, such as `bypassPermissions` |
/// | `model` | the agent's own | id of a model that the agent offers |
/// | `permissions` | `"allow"` | the answer when the agent asks: `allow`, `reject`, or a table of kinds |
///
/// A table names kinds of tool calls, `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`,
/// `fetch`, `switch_mode` and `other`, and `default` for the rest. Whatever is said there, a call that
/// names a path of `guard` and does more than read is rejected.
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
    Ok(Box::new(agent::Acp::new(config, context, supervisor, guard)))
}
