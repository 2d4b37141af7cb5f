//! What is built in or compiled in: adapters with the least configuration, and all else by its name.

use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_contract::{BuildContext, Description};
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_plugin_protocol::ItemKind;
use serde_json::{Value, json};

use crate::compiled_in::{CompiledIn, CompiledInAgent};
use crate::plugins::Plugins;
use crate::registry;
use crate::schema::{agents, detectors, validators};
use crate::user_folders::variables;

/// An adapter as lists show it.
#[derive(Debug)]
pub struct ListedAdapter {
    /// What it says of itself.
    pub description: Description,
    /// Whether its capabilities are known: a plugin's agent reports them when it is built.
    pub knows_capabilities: bool,
    /// Whether what it drives is there, and what was found or is missing.
    pub state: Result<String, String>,
}

/// Returns what is built in or compiled in by this name: its kind, and the schema of its keys unless it is a format of
/// backlogs, which has none of its own.
pub fn find_built_in(compiled_in: &CompiledIn, wanted: &str) -> Vec<(ItemKind, Option<Value>)> {
    let kinds = [
        (ItemKind::Agent, agents(compiled_in)),
        (ItemKind::Detector, detectors(compiled_in)),
        (ItemKind::Validator, validators(compiled_in)),
    ];
    let found = kinds.into_iter().filter_map(|(kind, all)| {
        let (_, keys) = all.into_iter().find(|(name, _)| name == wanted)?;
        Some((kind, Some(keys)))
    });
    let format = registry::has_backlog(wanted, compiled_in).then_some((ItemKind::Backlog, None));
    found.chain(format).collect()
}

/// Returns every adapter that is built in or compiled in, with the least configuration that it accepts. Starts nothing.
pub async fn list_built_in(compiled_in: &Arc<CompiledIn>, folder: PathBuf) -> Vec<ListedAdapter> {
    let registry = registry::unsupervised(&Plugins::none(compiled_in));
    let context = BuildContext {
        config_dir: folder.clone(),
        workspace: folder.clone(),
        prompt_dir: folder,
        path: variables().get("PATH").cloned().unwrap_or_default(),
    };
    let mut rows = Vec::new();
    for name in registry.agents.names() {
        rows.push(match compiled_in.agent(name, &context) {
            Some(agent) => describe_compiled_in(name, agent),
            None => describe_adapter(&registry, name, &context).await,
        });
    }
    rows
}

fn describe_compiled_in(name: &str, agent: CompiledInAgent) -> ListedAdapter {
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
    ListedAdapter { description, knows_capabilities, state: Ok(state) }
}

async fn describe_adapter(
    registry: &Registry,
    name: &str,
    context: &BuildContext,
) -> ListedAdapter {
    let build = async |table: Value| registry.agents.build(name, table, context).await?.ok();
    if let Some(agent) = build(json!({})).await {
        let description = agent.describe();
        let state = match &description.program {
            Some(program) => Ok(format!("installed: {}", program.display())),
            None => Err("not installed: its program is not in PATH".to_owned()),
        };
        return ListedAdapter { description, knows_capabilities: true, state };
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
    ListedAdapter {
        description,
        knows_capabilities: true,
        state: Ok("built in; ralph.toml names its program or recording".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_built_in_in_all_its_kinds() {
        let kinds = |name: &str| {
            let found = find_built_in(&CompiledIn::default(), name).into_iter();
            found.map(|(kind, keys)| (kind, keys.is_some())).collect::<Vec<_>>()
        };
        let (agent, validator) = (ItemKind::Agent, ItemKind::Validator);
        assert_eq!(kinds("command"), [(agent, true), (validator, true)]);
        assert_eq!(kinds("promise"), [(ItemKind::Detector, true)]);
        assert_eq!(kinds("github"), [(ItemKind::Backlog, false)]);
        assert_eq!(kinds("commands"), []);
    }
}
