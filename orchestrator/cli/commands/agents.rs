//! `agents`

use std::path::{Path, PathBuf};

use orchestrator::contract::{BuildContext, Description};

use crate::args::Agents;
use crate::commands::block_on;
use crate::context::variables;
use crate::error::{CommandError, exit};
use crate::{output, registry};

struct Row {
    description: Description,
    state: Result<String, String>,
}

pub(crate) fn agents(file: &Path, args: &Agents) -> Result<u8, CommandError> {
    let rows = block_on(look(file))?;
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                serde_json::json!({
                    "name": row.description.name,
                    "summary": row.description.summary,
                    "capabilities": row.description.capabilities,
                    "available": row.state.is_ok(),
                    "detail": row.state.as_ref().unwrap_or_else(|problem| problem),
                })
            })
            .collect();
        output::json(&rows);
        return Ok(exit::OK);
    }
    for row in &rows {
        let can = &row.description.capabilities;
        let named = [
            (can.free, "free"),
            (can.cost && !can.free, "cost"),
            (can.tokens, "tokens"),
            (can.context, "context"),
            (can.interrupt, "interrupt"),
            (can.handoff, "hand-off"),
            (can.in_session_validation, "in-session validation"),
            (can.resume, "resume"),
        ];
        let can: Vec<&str> = named.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        output::result(&format!("{:<12} {}", row.description.name, row.description.summary));
        if !can.is_empty() {
            output::result(&format!("             reports: {}", can.join(", ")));
        }
        let state = row.state.as_ref().map_or_else(
            |problem| format!("not usable: {problem}"),
            |found| format!("found: {found}"),
        );
        output::result(&format!("             {state}"));
    }
    Ok(exit::OK)
}

/// Every adapter with the least configuration that it accepts.
async fn look(file: &Path) -> Result<Vec<Row>, CommandError> {
    let registry = registry::plain();
    let vars = variables();
    let folder = std::path::absolute(file)?.parent().map(PathBuf::from).unwrap_or_default();
    let context = BuildContext {
        config_dir: folder.clone(),
        workspace: folder.clone(),
        prompt_dir: folder,
        path: vars.get("PATH").cloned().unwrap_or_default(),
    };
    let mut rows = Vec::new();
    for name in registry.agents.names() {
        let Some(factory) = registry.agents.get(name) else { continue };
        let least = match name {
            "command" => serde_json::json!({"program": ["sh"]}),
            "replay" => serde_json::json!({"session": "session.jsonl"}),
            _ => serde_json::json!({}),
        };
        let row = match factory(least, &context) {
            Ok(agent) => {
                let state = match name {
                    // What they drive is named in the configuration only.
                    "command" | "replay" => Ok("built in".to_owned()),
                    _ => agent.check(&vars).await.map_err(|error| error.to_string()),
                };
                let mut description = agent.describe();
                if name == "command" {
                    // It describes the program of this very configuration.
                    description.summary =
                        "any program; its output as text or claude, codex or opencode JSON".into();
                }
                Row { description, state }
            }
            Err(error) => Row {
                description: Description { name: name.to_owned(), ..Description::default() },
                state: Err(error.to_string()),
            },
        };
        rows.push(row);
    }
    Ok(rows)
}
