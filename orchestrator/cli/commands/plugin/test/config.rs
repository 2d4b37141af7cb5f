//! The file of `plugin test --conformance`: the configuration of the items, and the scenarios to skip.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_conformance::{Behaviour, Fixture, Options, Scenario};
use ralph_orchestrator_contract::BuildError;
use ralph_orchestrator_plugin_protocol::Item;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::CommandError;

/// The contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ConformanceConfig {
    config: Map<String, Value>,
    env: BTreeMap<String, String>,
    skip: Vec<SkippedScenarios>,
    prompt_max: Option<usize>,
    /// The configuration of each item, for plugins that provide several.
    items: BTreeMap<String, ItemConfig>,
    /// The top-level configuration, for items without their own.
    #[serde(skip)]
    default: ItemConfig,
}

/// The configuration of an item.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ItemConfig {
    /// Its table.
    config: Map<String, Value>,
    /// Variables for its processes.
    pub(super) env: BTreeMap<String, String>,
    skip: Vec<SkippedScenarios>,
    prompt_max: Option<usize>,
}

/// Scenarios that an agent does not support.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SkippedScenarios {
    scenarios: Vec<String>,
    why: String,
}

impl ConformanceConfig {
    pub(super) fn read(file: &Path) -> Result<Self, CommandError> {
        let wrong = |error: String| CommandError::config(format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let mut config_file: Self =
            toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        config_file.default = ItemConfig {
            config: std::mem::take(&mut config_file.config),
            env: std::mem::take(&mut config_file.env),
            skip: std::mem::take(&mut config_file.skip),
            prompt_max: config_file.prompt_max,
        };
        Ok(config_file)
    }

    /// Returns the configuration of an item.
    pub(super) fn item(&self, item: &str) -> &ItemConfig {
        self.items.get(item).unwrap_or(&self.default)
    }

    /// Checks that it names no unknown item.
    pub(super) fn check_items(&self, items: &[Item]) -> Result<(), CommandError> {
        let unknown = self.items.keys().find(|name| items.iter().all(|item| item.name != **name));
        match unknown {
            Some(name) => {
                let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
                Err(CommandError::config(format!(
                    "--conformance: the plugin has no item `{name}`, as in [items.{name}]; those it has: {}",
                    names.join(", ")
                )))
            }
            None => Ok(()),
        }
    }
}

impl ItemConfig {
    /// Returns the options of the conformance tests.
    pub(super) fn options(&self) -> Result<Options, CommandError> {
        let mut options = Options::default();
        if let Some(bytes) = self.prompt_max {
            options = options.prompt_max(bytes);
        }
        for SkippedScenarios { scenarios, why } in &self.skip {
            if why.trim().is_empty() {
                let message = "--conformance: each [[skip]] needs a reason: why = \"…\"";
                return Err(CommandError::config(message));
            }
            for word in scenarios {
                let scenario = Scenario::from_word(word).ok_or_else(|| unknown(word))?;
                options = options.skip(&[scenario], why);
            }
        }
        Ok(options)
    }

    /// Returns the table, with the placeholders in its texts replaced.
    pub(super) fn table(&self, fixture: &Fixture) -> Value {
        let (says, runs) = match &fixture.behaviour {
            Behaviour::Message { text } => (text.as_str(), "true"),
            Behaviour::Command { command, text } => (text.as_str(), command.as_str()),
            Behaviour::Hang | Behaviour::StallInMessage => ("", "sleep 1000"),
            Behaviour::HttpError { .. } => ("", "false"),
        };
        let model = fixture.model_url();
        let fill = |text: &str| {
            text.replace("{model_url}", &model).replace("{says}", says).replace("{runs}", runs)
        };
        filled(&Value::Object(self.config.clone()), &fill)
    }

    /// Returns the table without replacing placeholders.
    pub(super) fn plain_table(&self) -> Value {
        Value::Object(self.config.clone())
    }
}

fn filled(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(values) => values.iter().map(|value| filled(value, fill)).collect(),
        Value::Object(values) => {
            let values = values.iter().map(|(key, value)| (key.clone(), filled(value, fill)));
            Value::Object(values.collect())
        }
        other => other.clone(),
    }
}

fn unknown(word: &str) -> CommandError {
    let words: Vec<_> = Scenario::ALL.into_iter().map(Scenario::word).collect();
    let message = format!("--conformance: there is no scenario `{word}`");
    CommandError::config(message).hinted(format!("there are: {}", words.join(", ")))
}

/// Returns why an agent was not built.
pub(super) fn build_failure(error: &BuildError) -> String {
    let place =
        if error.key.is_empty() { String::new() } else { format!("`{}`: ", error.key.join(".")) };
    format!("it rejects its table: {place}{error}; give one with `[config]` in --conformance FILE")
}
