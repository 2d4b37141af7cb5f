//! `mcp`

use std::path::PathBuf;

use ralph_adapter_common::agent_tools::relay;
use ralph_orchestrator_assembly::error::{CommandError, exit};

#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// The file that the orchestrator has written for the iteration
    file: PathBuf,
}

/// Passes an agent's calls of tools to the run that has started it.
pub(crate) fn mcp(args: &McpArgs) -> Result<u8, CommandError> {
    relay(&args.file).map_err(CommandError::unavailable)?;
    Ok(exit::OK)
}
