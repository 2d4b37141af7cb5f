//! `agents`

mod try_recording;

use std::path::PathBuf;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::compiled_in::{CompiledInAgent, of_program};
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_contract::{BuildContext, Description};
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_plugin_protocol::ItemKind;
use ralph_orchestrator_story::words::capability_names;
use ralph_orchestrator_terminal::output;
use serde_json::{Value, json};

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
    /// Show what the rules of `[agent.config.stream]` make of recorded output
    #[command(after_help = help_examples::examples_of("agents try"))]
    Try(try_recording::TryArgs),
}

/// Where details begin.
const INDENT: usize = 13;

struct AdapterRow {
    description: Description,
    /// Whether its capabilities are known: a plugin's agent reports them when it is built.
    knows_capabilities: bool,
    /// Whether what it drives is there, and what was found or is missing.
    state: Result<String, String>,
}

impl AdapterRow {
    fn lines(&self) -> Vec<String> {
        let Self { description, state, .. } = self;
        let mut lines = vec![format!("{:<12} {}", description.name, description.summary)];
        let can = capability_names(&description.capabilities);
        let can = (!can.is_empty()).then(|| format!("can: {}", can.join(", ")));
        let (Ok(state) | Err(state)) = state;
        let below = can.iter().chain([state]);
        lines.extend(below.map(|text| format!("{:INDENT$}{text}", "")));
        lines
    }
}

pub(crate) fn agents(file: &ConfigFile, args: &AgentsArgs) -> Result<u8, CommandError> {
    if let Some(AgentsCommand::Try(recording)) = &args.command {
        return try_recording::try_recording(file, recording);
    }
    let rows = block_on(list_adapters(file))?;
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|AdapterRow { description, knows_capabilities, state }| {
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
    let lines = rows.iter().flat_map(AdapterRow::lines);
    lines.for_each(|line| output::result_folded(&line, INDENT));
    output::info("`doctor` checks the agent of ralph.toml in detail");
    Ok(exit::OK)
}

/// Every adapter with the least configuration that it accepts. Starts nothing.
async fn list_adapters(file: &ConfigFile) -> Result<Vec<AdapterRow>, CommandError> {
    let compiled_in = of_program();
    let registry = registry::unsupervised(&Plugins::none(&compiled_in));
    let folder = std::path::absolute(file.path())?.parent().map(PathBuf::from).unwrap_or_default();
    let context = BuildContext {
        config_dir: folder.clone(),
        workspace: folder.clone(),
        prompt_dir: folder,
        path: variables().get("PATH").cloned().unwrap_or_default(),
    };
    let names = registry.agents.names();
    let mut rows = Vec::new();
    for name in names {
        rows.push(match compiled_in.agent(name, &context) {
            Some(agent) => describe_compiled_in(name, agent),
            None => describe_adapter(&registry, name, &context).await,
        });
    }
    rows.extend(list_plugin_agents(file).await?);
    Ok(rows)
}

/// The agents of the plugins in the configuration, if there is one. Says hello to each plugin.
async fn list_plugin_agents(file: &ConfigFile) -> Result<Vec<AdapterRow>, CommandError> {
    if !file.path().exists() {
        return Ok(Vec::new());
    }
    let plugins = Plugins::from_context(&Context::load(file, Vec::new())?)?;
    let mut rows = Vec::new();
    for (plugin, result) in plugins.handshakes().await {
        match result {
            Ok(hello) => {
                let agents = hello.provides.iter().filter(|item| item.kind == ItemKind::Agent);
                rows.extend(agents.map(|item| AdapterRow {
                    description: Description {
                        name: format!("{}/{}", plugin.name(), item.name),
                        summary: item.summary.clone(),
                        ..Description::default()
                    },
                    knows_capabilities: false,
                    state: Ok(format!("provided by the plugin {} {}", hello.name, hello.version)),
                }));
            }
            Err(problem) => rows.push(AdapterRow {
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

fn describe_compiled_in(name: &str, agent: CompiledInAgent) -> AdapterRow {
    let CompiledInAgent { description, required } = agent;
    let program = description.as_ref().and_then(|known| known.program.clone());
    let state = match (program, required.as_slice()) {
        (Some(program), _) => format!("compiled in; installed: {}", program.display()),
        (None, []) => "compiled in".to_owned(),
        (None, keys) => format!("compiled in; ralph.toml has to set {}", keys.join(", ")),
    };
    let knows_capabilities = description.is_some();
    let mut description = description.unwrap_or_else(|| Description {
        summary: "an agent of this program's own".to_owned(),
        ..Description::default()
    });
    name.clone_into(&mut description.name);
    AdapterRow { description, knows_capabilities, state: Ok(state) }
}

async fn describe_adapter(registry: &Registry, name: &str, context: &BuildContext) -> AdapterRow {
    let build = async |table: Value| registry.agents.build(name, table, context).await?.ok();
    if let Some(agent) = build(json!({})).await {
        let description = agent.describe();
        let state = match &description.program {
            Some(program) => Ok(format!("installed: {}", program.display())),
            None => Err("not installed: its program is not in PATH".to_owned()),
        };
        return AdapterRow { description, knows_capabilities: true, state };
    }
    // What these drive is named in the configuration only.
    let mut agent = build(json!({"program": ["sh"]})).await;
    if agent.is_none() {
        agent = build(json!({"session": "session.jsonl"})).await;
    }
    let mut description = agent.map(|agent| agent.describe()).unwrap_or_default();
    name.clone_into(&mut description.name);
    description.program = None;
    if name == "command" {
        // It describes the program of this very configuration.
        description.summary =
            "any program; its output as text, known JSON, or JSON that ralph.toml describes".into();
    }
    AdapterRow {
        description,
        knows_capabilities: true,
        state: Ok("built in; ralph.toml names its program or recording".to_owned()),
    }
}
