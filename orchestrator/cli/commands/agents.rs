//! `agents`

use std::path::PathBuf;

use ralph_orchestrator_contract::{BuildContext, Description};
use ralph_orchestrator_core::registry::Registry;
use ralph_orchestrator_plugin_protocol::ItemKind;
use serde_json::{Value, json};

use crate::args::Agents;
use crate::commands::block_on;
use crate::context::{Context, variables};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::plugins::Plugins;
use crate::render::text::abilities;
use crate::{output, registry};

struct Row {
    description: Description,
    /// Whether what it drives is there, and what was found or is missing.
    state: Result<String, String>,
}

pub(crate) fn agents(file: &ConfigFile, args: &Agents) -> Result<u8, CommandError> {
    let rows = block_on(look(file))?;
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|Row { description, state }| {
                json!({
                    "name": description.name,
                    "summary": description.summary,
                    "capabilities": description.capabilities,
                    "installed": state.is_ok(),
                    "program": description.program,
                    "detail": state.as_ref().unwrap_or_else(|problem| problem),
                })
            })
            .collect();
        output::json(&rows);
        return Ok(exit::OK);
    }
    for Row { description, state } in &rows {
        output::result(&format!("{:<12} {}", description.name, description.summary));
        let can = abilities(&description.capabilities);
        if !can.is_empty() {
            output::result(&format!("             can: {}", can.join(", ")));
        }
        let (Ok(state) | Err(state)) = state;
        output::result(&format!("             {state}"));
    }
    output::say("`doctor` looks into the agent of ralph.toml in depth");
    Ok(exit::OK)
}

/// Every adapter with the least configuration that it accepts. Starts nothing.
async fn look(file: &ConfigFile) -> Result<Vec<Row>, CommandError> {
    let registry = registry::plain(&Plugins::default());
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
        rows.push(row(&registry, name, &context).await);
    }
    rows.extend(of_plugins(file).await?);
    Ok(rows)
}

/// The agents of the plugins in the configuration, if there is one. Says hello to each plugin.
async fn of_plugins(file: &ConfigFile) -> Result<Vec<Row>, CommandError> {
    if !file.path().exists() {
        return Ok(Vec::new());
    }
    let plugins = Plugins::of(&Context::load(file, Vec::new())?)?;
    let mut rows = Vec::new();
    for (plugin, result) in plugins.hellos().await {
        match result {
            Ok(hello) => {
                let agents = hello.provides.iter().filter(|item| item.kind == ItemKind::Agent);
                rows.extend(agents.map(|item| Row {
                    description: Description {
                        name: format!("{}/{}", plugin.name(), item.name),
                        summary: item.summary.clone(),
                        ..Description::default()
                    },
                    state: Ok(format!("of the plugin {} {}", hello.name, hello.version)),
                }));
            }
            Err(problem) => rows.push(Row {
                description: Description {
                    name: plugin.name().to_owned(),
                    ..Description::default()
                },
                state: Err(problem),
            }),
        }
    }
    Ok(rows)
}

async fn row(registry: &Registry, name: &str, context: &BuildContext) -> Row {
    let build = async |table: Value| registry.agents.build(name, table, context).await?.ok();
    if let Some(agent) = build(json!({})).await {
        let description = agent.describe();
        let state = match &description.program {
            Some(program) => Ok(format!("installed: {}", program.display())),
            None => Err("not installed: its program is not in PATH".to_owned()),
        };
        return Row { description, state };
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
            "any program; its output as text or claude, codex or opencode JSON".into();
    }
    Row { description, state: Ok("built in; ralph.toml names what it drives".to_owned()) }
}
