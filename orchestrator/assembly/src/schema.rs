//! The JSON Schema of `ralph.toml`: what core knows of it, and the keys of all that is built in or compiled in.

use ralph_orchestrator_config as config;
use ralph_orchestrator_detectors::{marker, promise};
use ralph_orchestrator_driver::{BACKLOG_DETECTOR, BacklogDetectorKeys};
use ralph_orchestrator_plugin_protocol::{Item, ItemKind};
use serde_json::{Map, Value, json};

use crate::compiled_in::CompiledIn;
use crate::defaults::config_defaults;
use crate::key_schema::{beside_others, closed, open};

/// Keys of something that is built in or compiled in, by its name.
pub type Keys = (String, Value);

/// The definition that core has for `[agent]` and `[agents.NAME]`.
const AGENT: &str = "AgentConfig";

/// Returns the JSON Schema of `ralph.toml`.
///
/// `plugins` are the keys of plugins' items.
pub fn schema(compiled_in: &CompiledIn, plugins: PluginKeys) -> Value {
    let mut schema = config::schema(&config_defaults());
    let Some(definitions) = schema.get_mut("definitions").and_then(Value::as_object_mut) else {
        return schema;
    };
    let default = definitions
        .get(AGENT)
        .and_then(|agent| agent.pointer("/properties/adapter/default"))
        .cloned();
    let agents = define(definitions, "adapter", with(agents(compiled_in), plugins.agents));
    let conditions = agents.into_iter().map(|(name, reference)| {
        let is_default = default.as_ref().is_some_and(|default| *default == name);
        condition("adapter", &name, is_default, &json!({"properties": {"config": reference}}))
    });
    add(definitions, AGENT, conditions.collect());
    for (table, key, kinds) in [
        ("Validator", "kind", with(validators(compiled_in), plugins.validators)),
        ("Detector", "name", with(detectors(compiled_in), plugins.detectors)),
    ] {
        let kinds = define(definitions, &table.to_lowercase(), kinds);
        let conditions = kinds
            .into_iter()
            .map(|(name, reference)| condition(key, &name, false, &reference))
            .collect();
        add(definitions, table, conditions);
    }
    schema
}

/// The keys of plugins' items, by the names that a configuration has for them.
#[derive(Debug, Default)]
pub struct PluginKeys {
    agents: Vec<Keys>,
    detectors: Vec<Keys>,
    validators: Vec<Keys>,
}

impl PluginKeys {
    /// Adds the items of a plugin that say what their keys are.
    pub fn add(&mut self, plugin: &str, items: &[Item]) {
        for item in items {
            let Some(schema) = &item.schema else { continue };
            let (keys, schema) = match item.kind {
                ItemKind::Agent => (&mut self.agents, schema.clone()),
                ItemKind::Detector => (&mut self.detectors, beside_others(schema.clone())),
                ItemKind::Validator => (&mut self.validators, beside_others(schema.clone())),
                ItemKind::Backlog | ItemKind::Unknown => continue,
            };
            keys.push((format!("{plugin}/{}", item.name), schema.clone()));
            // The only one of its kind needs no name.
            if items.iter().filter(|other| other.kind == item.kind).count() == 1 {
                keys.push((plugin.to_owned(), schema));
            }
        }
    }
}

fn with(mut keys: Vec<Keys>, more: Vec<Keys>) -> Vec<Keys> {
    keys.extend(more);
    keys
}

/// Returns the keys of all agents that are built in or compiled in.
pub(crate) fn agents(compiled_in: &CompiledIn) -> Vec<Keys> {
    let built_in = [
        ("acp", closed::<ralph_adapter_acp::Keys>()),
        ("claude-cli", closed::<ralph_adapter_claude_cli::Keys>()),
        ("claude-sdk", closed::<ralph_adapter_claude_sdk::Keys>()),
        ("codex", closed::<ralph_adapter_codex::Keys>()),
        ("command", closed::<ralph_adapter_command::Keys>()),
        ("replay", closed::<ralph_adapter_replay::Keys>()),
    ];
    named(built_in.into_iter().chain(compiled_in.agents()))
}

/// Returns the keys of all validators that are built in or compiled in.
pub(crate) fn validators(compiled_in: &CompiledIn) -> Vec<Keys> {
    let built_in = [
        ("command", open::<ralph_validator_command::Keys>()),
        ("evidence-files", open::<ralph_validator_evidence_files::Keys>()),
        ("protected-paths", open::<ralph_validator_protected_paths::Keys>()),
        ("review", open::<ralph_validator_review::Keys>()),
    ];
    named(built_in.into_iter().chain(compiled_in.validators()))
}

/// Returns the keys of all detectors that are built in or compiled in.
pub(crate) fn detectors(compiled_in: &CompiledIn) -> Vec<Keys> {
    let built_in = [
        ("promise", open::<promise::Keys>()),
        ("marker", open::<marker::Keys>()),
        (BACKLOG_DETECTOR, open::<BacklogDetectorKeys>()),
    ];
    named(built_in.into_iter().chain(compiled_in.detectors()))
}

fn named<'a>(keys: impl Iterator<Item = (&'a str, Value)>) -> Vec<Keys> {
    keys.map(|(name, keys)| (name.to_owned(), keys)).collect()
}

/// Returns the keys of an adapter's own that have a default, with that.
pub fn agent_defaults(compiled_in: &CompiledIn, adapter: &str) -> Vec<Keys> {
    defaults(agents(compiled_in), adapter)
}

/// Returns the keys of a kind of validators that have a default, with that.
pub fn validator_defaults(compiled_in: &CompiledIn, kind: &str) -> Vec<Keys> {
    defaults(validators(compiled_in), kind)
}

fn defaults(kinds: Vec<Keys>, wanted: &str) -> Vec<Keys> {
    let keys = kinds.into_iter().find(|(name, _)| name == wanted).map(|(_, keys)| keys);
    let properties = keys.as_ref().and_then(|keys| keys.get("properties")?.as_object());
    let default =
        |(key, value): (&String, &Value)| Some((key.clone(), value.get("default")?.clone()));
    properties.into_iter().flatten().filter_map(default).collect()
}

/// Puts the keys into definitions of their own, and refers to them.
fn define(definitions: &mut Map<String, Value>, what: &str, kinds: Vec<Keys>) -> Vec<Keys> {
    let define = |(name, keys)| {
        let definition = format!("{what}:{name}");
        // Names of plugins' items have a slash.
        let pointer = definition.replace('/', "~1");
        let reference = json!({"$ref": format!("#/definitions/{pointer}")});
        definitions.insert(definition, keys);
        (name, reference)
    };
    kinds.into_iter().map(define).collect()
}

/// What holds in addition if the key has this value, or, for the default, is missing.
fn condition(key: &str, value: &str, is_default: bool, then: &Value) -> Value {
    let mut when = json!({"properties": {key: {"const": value}}});
    if let Some(when) = when.as_object_mut().filter(|_| !is_default) {
        when.insert("required".to_owned(), json!([key]));
    }
    json!({"if": when, "then": then})
}

fn add(definitions: &mut Map<String, Value>, table: &str, conditions: Vec<Value>) {
    if let Some(table) = definitions.get_mut(table).and_then(Value::as_object_mut) {
        table.insert("allOf".to_owned(), Value::Array(conditions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::Plugins;
    use crate::registry;
    use std::sync::Arc;

    #[test]
    fn describes_everything_that_is_built_in() {
        let registry = registry::unsupervised(&Plugins::none(&Arc::default()));
        let none = CompiledIn::default();
        let sorted = |kinds: Vec<Keys>| {
            let mut names: Vec<_> = kinds.into_iter().map(|(name, _)| name).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(agents(&none)), registry.agents.names());
        assert_eq!(sorted(validators(&none)), registry.validators.names());
        assert_eq!(sorted(detectors(&none)), registry.detectors.names());
    }

    #[test]
    fn explains_every_key() {
        let none = CompiledIn::default();
        let all = agents(&none).into_iter().chain(validators(&none)).chain(detectors(&none));
        for (name, keys) in all {
            for (key, property) in keys["properties"].as_object().into_iter().flatten() {
                let text = property["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "`{key}` of {name} has no doc comment");
                assert!(property.get("default").is_none_or(|default| !default.is_null()), "{key}");
            }
        }
    }
}
