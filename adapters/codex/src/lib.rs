//! The `codex` adapter: drives OpenAI's Codex by `codex exec --json`.
//! Knows neither the engine nor another adapter.
//!
//! One process and one fresh thread for each iteration, the prompt on its standard input. Codex reports
//! tokens but no cost: the orchestrator estimates it. Its stream tells figures only when a turn has ended
//! well, so while it runs they are taken from the recording that it keeps of the thread in
//! `$CODEX_HOME/sessions`, which also tells how full the context is. With `--ephemeral` there is none.
//!
//! Nobody is there to approve anything: Codex is told never to ask, and by default to do without its own
//! sandbox, which has no network, leaves `.git` read-only and does not work in many containers. Confine
//! it by `[sandbox]` of the orchestrator, or say `sandbox = "workspace-write"` here.

mod agent;
mod config;
mod environment;
mod login;
mod output;
mod recording;

/// The keys of `[agent.config]`.
pub use config::Config as Keys;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// Builds the adapter from `[agent.config]`.
///
/// | key | default | |
/// |---|---|---|
/// | `program` | `"codex"` | a name looked for in `PATH`, or a path |
/// | `model` | Codex's own | `--model`; prices are looked up by it |
/// | `sandbox` | `"danger-full-access"` | Codex's own sandbox: that, `workspace-write` or `read-only` |
/// | `args` | none | further arguments, such as `["-c", "model_reasoning_effort=high"]` |
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
    let config = config::Config::parse(config)?;
    Ok(Box::new(agent::Codex::new(config, context, supervisor)))
}
