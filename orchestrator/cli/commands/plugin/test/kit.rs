//! What a plugin's author says of its items: what they are built with, and what they do without.

use std::collections::BTreeMap;
use std::path::Path;

use plugin_protocol::Item;
use ralph_orchestrator_contract::BuildError;
use ralph_orchestrator_testkit::conformance::{Act, Options, Scenario, Stage};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::CommandError;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Kit {
    config: Map<String, Value>,
    env: BTreeMap<String, String>,
    without: Vec<Without>,
    prompt_max: Option<usize>,
    /// For plugins that provide several.
    items: BTreeMap<String, Part>,
    /// What stands above, for items that have no part of their own.
    #[serde(skip)]
    whole: Part,
}

/// What is said of one item.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Part {
    /// Its table.
    config: Map<String, Value>,
    /// For its processes.
    pub(super) env: BTreeMap<String, String>,
    without: Vec<Without>,
    prompt_max: Option<usize>,
}

/// Scenarios that are not expected of an agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Without {
    scenarios: Vec<String>,
    why: String,
}

impl Kit {
    pub(super) fn read(file: &Path) -> Result<Self, CommandError> {
        let wrong = |error: String| CommandError::config(format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let mut kit: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        kit.whole = Part {
            config: std::mem::take(&mut kit.config),
            env: std::mem::take(&mut kit.env),
            without: std::mem::take(&mut kit.without),
            prompt_max: kit.prompt_max,
        };
        Ok(kit)
    }

    /// What is said of this item.
    pub(super) fn of(&self, item: &str) -> &Part {
        self.items.get(item).unwrap_or(&self.whole)
    }

    /// An error if it speaks of an item that is not there.
    pub(super) fn knows_only(&self, items: &[Item]) -> Result<(), CommandError> {
        let stranger = self.items.keys().find(|name| items.iter().all(|item| item.name != **name));
        match stranger {
            Some(name) => {
                let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
                Err(CommandError::config(format!(
                    "--kit: the plugin has no item `{name}`, as in [items.{name}]; those it has: {}",
                    names.join(", ")
                )))
            }
            None => Ok(()),
        }
    }
}

impl Part {
    /// What the kit expects.
    pub(super) fn options(&self) -> Result<Options, CommandError> {
        let mut options = Options::default();
        if let Some(bytes) = self.prompt_max {
            options = options.prompt_max(bytes);
        }
        for Without { scenarios, why } in &self.without {
            if why.trim().is_empty() {
                let message = "--kit: each [[without]] needs a reason: why = \"…\"";
                return Err(CommandError::config(message));
            }
            for word in scenarios {
                let scenario = Scenario::of_word(word).ok_or_else(|| unknown(word))?;
                options = options.without(&[scenario], why);
            }
        }
        Ok(options)
    }

    /// The table, with what the stage is for in its texts.
    pub(super) fn table(&self, stage: &Stage) -> Value {
        let (says, runs) = match &stage.act {
            Act::Says { text } => (text.as_str(), "true"),
            Act::Runs { command, text } => (text.as_str(), command.as_str()),
            Act::Hangs | Act::Stalls => ("", "sleep 1000"),
            Act::Refused { .. } => ("", "false"),
        };
        let model = stage.model();
        let fill = |text: &str| {
            text.replace("{model_url}", &model).replace("{says}", says).replace("{runs}", runs)
        };
        filled(&Value::Object(self.config.clone()), &fill)
    }

    /// The table as it is.
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
    let message = format!("--kit: there is no scenario `{word}`");
    CommandError::config(message).hinted(format!("there are: {}", words.join(", ")))
}

/// Why no agent was built, for the table.
pub(super) fn refused(error: &BuildError) -> String {
    let place =
        if error.key.is_empty() { String::new() } else { format!("`{}`: ", error.key.join(".")) };
    format!("it refuses its table: {place}{error}; give one with `[config]` in --kit FILE")
}
