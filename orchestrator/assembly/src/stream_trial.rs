//! Reads a recording of an agent's output by the rules of the configuration.

/// What the rules make of a recording.
pub use ralph_adapter_command::{RecordedEnd, TriedLine, TriedReport, TriedStream};
use ralph_orchestrator_engine::{ConfiguredAgent, build_context};

use crate::context::Context;
use crate::error::CommandError;
use crate::plugins::Plugins;
use crate::registry;

/// The adapter whose output is read by rules.
const ADAPTER: &str = "command";

/// Reads a recording by the rules of the agent, or of that of `[agents]` with this name. Starts nothing.
///
/// # Errors
/// The agent's configuration is wrong, or has no rules.
pub async fn try_stream(
    context: &Context,
    name: Option<&str>,
    recording: &[u8],
    end: Option<RecordedEnd>,
) -> Result<TriedStream, CommandError> {
    let config = &context.loaded.config;
    let agent = config.agent_table(config.first_agent(name));
    let adapter = agent.map_or(ADAPTER, |agent| &agent.adapter);
    if adapter != ADAPTER {
        return Err(without_rules(&format!("the agent has the adapter `{adapter}`")));
    }
    let registry = registry::unsupervised(&Plugins::none(&context.compiled_in));
    let build = build_context(&context.loaded, &context.vars);
    // Finds mistakes with their places, and a name that does not exist.
    ConfiguredAgent::build(&context.loaded, &registry, &build, name).await?;
    let table = agent.map(|agent| agent.config.clone()).unwrap_or_default();
    ralph_adapter_command::try_stream(table, recording, end)
        .map_err(CommandError::internal)?
        .ok_or_else(|| without_rules("the agent has no table `config.stream`"))
}

fn without_rules(found: &str) -> CommandError {
    let message = format!("{found}: there are no rules to read the recording by");
    CommandError::config(message).hinted(
        "write rules as [[agent.config.stream.rule]], with `adapter = \"command\"`; `--agent` and `-c` name another agent",
    )
}
