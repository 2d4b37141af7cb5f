//! `agents`

mod record;
mod recording;
mod try_recording;

use std::path::PathBuf;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::built_in::{ListedAdapter, list_built_in};
use ralph_orchestrator_assembly::compiled_in::of_program;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_contract::Description;
use ralph_orchestrator_plugin_protocol::ItemKind;
use ralph_orchestrator_story::words::capability_names;
use ralph_orchestrator_terminal::output;
use serde_json::json;

use crate::help_examples;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AgentsCommand>,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum AgentsCommand {
    /// Run a program and record what it prints, for `agents try`
    #[command(after_help = help_examples::examples_of("agents record"))]
    Record(record::RecordArgs),
    /// Show what the rules of `[agent.config.stream]` make of recorded output
    #[command(after_help = help_examples::examples_of("agents try"))]
    Try(try_recording::TryArgs),
}

/// Where details begin.
const INDENT: usize = 13;

fn describe_row(row: &ListedAdapter) -> Vec<String> {
    let ListedAdapter { description, state, .. } = row;
    let mut lines = vec![format!("{:<12} {}", description.name, description.summary)];
    let can = capability_names(&description.capabilities);
    let can = (!can.is_empty()).then(|| format!("can: {}", can.join(", ")));
    let (Ok(state) | Err(state)) = state;
    let below = can.iter().chain([state]);
    lines.extend(below.map(|text| format!("{:INDENT$}{text}", "")));
    lines
}

pub(crate) fn agents(file: &ConfigFile, args: &AgentsArgs) -> Result<u8, CommandError> {
    match &args.command {
        Some(AgentsCommand::Record(recorded)) => return record::record(recorded),
        Some(AgentsCommand::Try(recording)) => {
            return try_recording::try_recording(file, recording);
        }
        None => {}
    }
    let rows = block_on(list_adapters(file))?;
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|ListedAdapter { description, knows_capabilities, state }| {
                json!({
                    "name": description.name,
                    "summary": description.summary,
                    "capabilities": knows_capabilities.then_some(description.capabilities),
                    "installed": state.is_ok(),
                    "program": description.program,
                    "detail": state.as_ref().unwrap_or_else(|problem| problem),
                })
            })
            .collect();
        output::json(&rows);
        return Ok(exit::OK);
    }
    let lines = rows.iter().flat_map(describe_row);
    lines.for_each(|line| output::result_folded(&line, INDENT));
    output::info("`doctor` checks the agent of ralph.toml in detail");
    Ok(exit::OK)
}

/// Every adapter with the least configuration that it accepts. Starts nothing.
async fn list_adapters(file: &ConfigFile) -> Result<Vec<ListedAdapter>, CommandError> {
    let folder = std::path::absolute(file.path())?.parent().map(PathBuf::from).unwrap_or_default();
    let mut rows = list_built_in(&of_program(), folder).await;
    rows.extend(list_plugin_agents(file).await?);
    Ok(rows)
}

/// The agents of the plugins in the configuration, if there is one. Says hello to each plugin.
async fn list_plugin_agents(file: &ConfigFile) -> Result<Vec<ListedAdapter>, CommandError> {
    if !file.path().exists() {
        return Ok(Vec::new());
    }
    let plugins = Plugins::from_context(&Context::load(file, Vec::new())?)?;
    let mut rows = Vec::new();
    for (plugin, result) in plugins.handshakes().await {
        match result {
            Ok(hello) => {
                let agents = hello.provides.iter().filter(|item| item.kind == ItemKind::Agent);
                rows.extend(agents.map(|item| ListedAdapter {
                    description: Description {
                        name: format!("{}/{}", plugin.name(), item.name),
                        summary: item.summary.clone(),
                        ..Description::default()
                    },
                    knows_capabilities: false,
                    state: Ok(format!("provided by the plugin {} {}", hello.name, hello.version)),
                }));
            }
            Err(problem) => rows.push(ListedAdapter {
                description: Description {
                    name: plugin.name().to_owned(),
                    ..Description::default()
                },
                knows_capabilities: false,
                state: Err(problem),
            }),
        }
    }
    Ok(rows)
}
