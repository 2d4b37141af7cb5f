//! `agents`

use std::path::{Path, PathBuf};

use orchestrator::contract::{Agent, BuildContext, Description};
use orchestrator::registry::Registry;
use serde_json::{Value, json};

use crate::args::Agents;
use crate::context::variables;
use crate::error::{CommandError, exit};
use crate::render::text::abilities;
use crate::{output, registry};

struct Row {
    description: Description,
    /// Whether what it drives is there, and what was found or is missing.
    state: Result<String, String>,
}

pub(crate) fn agents(file: &Path, args: &Agents) -> Result<u8, CommandError> {
    let rows = look(file)?;
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
fn look(file: &Path) -> Result<Vec<Row>, CommandError> {
    let registry = registry::plain();
    let folder = std::path::absolute(file)?.parent().map(PathBuf::from).unwrap_or_default();
    let context = BuildContext {
        config_dir: folder.clone(),
        workspace: folder.clone(),
        prompt_dir: folder,
        path: variables().get("PATH").cloned().unwrap_or_default(),
    };
    let names = registry.agents.names();
    Ok(names.into_iter().map(|name| row(&registry, name, &context)).collect())
}

fn row(registry: &Registry, name: &str, context: &BuildContext) -> Row {
    let build = |table: Value| {
        let factory = registry.agents.get(name)?;
        factory(table, context).ok()
    };
    if let Some(agent) = build(json!({})) {
        let description = agent.describe();
        let state = match &description.program {
            Some(program) => Ok(format!("installed: {}", program.display())),
            None => Err("not installed: its program is not in PATH".to_owned()),
        };
        return Row { description, state };
    }
    // What these drive is named in the configuration only.
    let named = [json!({"program": ["sh"]}), json!({"session": "session.jsonl"})];
    let agent: Option<Box<dyn Agent>> = named.into_iter().find_map(build);
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
