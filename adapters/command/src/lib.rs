//! The `command` adapter: drives any program as an agent.
//! Knows neither the engine nor another adapter.
//!
//! Keys of `[agent.config]`:
//!
//! | key | meaning |
//! |---|---|
//! | `program` | `["argv0", …]`, required. A bare name is looked for in `PATH`, a path with a slash is relative to the folder of the configuration file; found once, when the run starts, and pinned |
//! | `prompt` | `"stdin"` (default); `"arg"`: replaces `{prompt}` in the arguments or is appended; `"file"`: a private file whose path replaces `{prompt_file}` or is appended |
//! | `output` | `"text"` (default): all of standard output is the agent's own text, and its last 256 KiB are the final message; `"claude-json"`, `"codex-json"`, `"opencode-json"`: those agents' JSON lines |
//! | `stream` | instead of `output`: rules by which any program's JSON lines are read, which the adapter's page describes |
//!
//! An exit status other than 0, a signal, or a structured output without its proper end is a failed
//! iteration, and nothing that was said in it is a claim. `codex-json` counts the tokens of the whole
//! thread, so a resumed thread counts what was used before, too.

mod agent;
mod config;
mod output;
mod prompt;
mod stream;
mod tail;
mod trial;
mod utf8;

/// The keys of `[agent.config]`.
pub use config::Keys;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;
pub use trial::{
    RecordedEnd, TriedFailure, TriedKey, TriedLine, TriedReport, TriedStream, try_stream,
};

/// Builds the agent from `[agent.config]`.
///
/// A program that cannot be found is no mistake in the configuration: [`Agent::check`] and
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
    Ok(Box::new(agent::CommandAgent::new(config, context, supervisor)))
}
