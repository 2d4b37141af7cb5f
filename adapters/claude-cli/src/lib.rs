//! The `claude-cli` adapter: drives Claude Code by `claude -p --output-format stream-json`.
//! Knows neither the engine nor another adapter.
//!
//! One process for each iteration, the prompt on its standard input. Cost and tokens are Claude
//! Code's own figures. Retries after failed requests are left to the orchestrator but for two.

mod agent;
mod config;

/// The keys of `[agent.config]`.
pub use config::Table as Keys;
use ralph_adapter_common::claude_program::ClaudeProgram;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// Builds the adapter from `[agent.config]`.
///
/// | key | default | |
/// |---|---|---|
/// | `program` | `"claude"` | a name looked for in `PATH`, or a path |
/// | `model` | Claude Code's own | `--model` |
/// | `permission_mode` | `"bypassPermissions"` | `acceptEdits`, `auto`, `bypassPermissions`, `default`, `dontAsk` or `plan` |
/// | `allowed_tools`, `disallowed_tools` | none | lists |
/// | `max_turns` | none | at least 1 |
/// | `tools` | `false` | the orchestrator's tools for the agent |
/// | `args` | none | further arguments |
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
) -> Result<Box<dyn Agent>, BuildError> {
    let (options, has_tools) = config::parse(config)?;
    let bypass = options.bypasses_permissions().then_some("allowed_tools");
    let program = ClaudeProgram::new(&options.program, context, supervisor, bypass);
    Ok(Box::new(agent::ClaudeCli { options, program, has_tools }))
}
