//! The `replay` adapter: replays a recorded session of Claude Code.
//! Knows neither the engine nor another adapter.
//!
//! Keys of `[agent.config]`:
//!
//! | key | meaning |
//! |---|---|
//! | `session` | a recorded `--output-format stream-json` file, or a folder with `1.jsonl`, `2.jsonl`, …: iteration n replays file n, and the last one again beyond that. Relative to the folder of the configuration file |
//!
//! The recorded agent's Write, Edit, MultiEdit and Bash calls are executed in the workspace, and the
//! results shown are those of the execution. The recorded working folder is replaced by the
//! workspace, in commands too; files outside the workspace are never written, also not through links.
//! What was refused or failed to change a file when it was recorded is not done, and background
//! commands are not started. Everything else (Read, subagents' answers, unknown tools) is only shown.
//! Nothing is spent: the usage is no cost and no tokens, whatever the recording says.

mod agent;
mod cancellation;
mod config;
mod files;
mod path_mapping;
mod player;
mod session;
mod shell;
mod tool_executor;

/// The keys of `[agent.config]`.
pub use config::Config as Keys;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// Builds the agent from `[agent.config]`.
///
/// A session that is not there is no mistake in the configuration: [`Agent::check`] and
/// [`Agent::run`] report it as unavailable.
///
/// # Errors
/// The first mistake in `config`, with its key.
pub fn build(
    config: Value,
    context: &BuildContext,
    supervisor: &Supervisor,
) -> Result<Box<dyn Agent>, BuildError> {
    let config = config::Config::parse(config)?;
    Ok(Box::new(agent::ReplayAgent::new(config, context, supervisor)))
}
