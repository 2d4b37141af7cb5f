//! The file of `plugin test --conformance`: the configuration of the items, and the scenarios to skip.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_conformance::{
    Behaviour, CaseExpectation, Fixture, Options, Scenario, WorkspaceCase,
};
use ralph_orchestrator_contract::BuildError;
use ralph_orchestrator_plugin_protocol::Item;
use serde::Deserialize;
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::defaults::{ItemTable, table_of};

/// What replaces these texts in a configuration differs from scenario to scenario.
const PLACEHOLDERS: [&str; 5] = ["{says}", "{runs}", "{model_url}", CLAIMS, NOTES];
/// What the agent claims by a tool, and what it leaves as a note: nothing in most scenarios.
const CLAIMS: &str = "{claims}";
const NOTES: &str = "{notes}";
const MODEL: &str = "{model_url}";

/// The contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ConformanceConfig {
    config: Option<Map<String, Value>>,
    env: BTreeMap<String, String>,
    skip: Vec<SkippedScenarios>,
    prompt_max: Option<usize>,
    workspace: Vec<CaseTable>,
    /// The configuration of each item, for plugins that provide several.
    items: BTreeMap<String, ItemConfig>,
    /// The file, and its text for the places of keys.
    #[serde(skip)]
    source: Option<(PathBuf, String)>,
    /// What `ralph.toml` gives the plugin's items.
    #[serde(skip)]
    pub(super) tables: Vec<ItemTable>,
}

/// The configuration of an item.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ItemConfig {
    config: Option<Map<String, Value>>,
    env: BTreeMap<String, String>,
    skip: Vec<SkippedScenarios>,
    prompt_max: Option<usize>,
    workspace: Vec<CaseTable>,
}

/// A workspace, and the result that is expected in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseTable {
    name: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default = "claim_text")]
    text: String,
    expect: Expectation,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expectation {
    Accepted,
    Rejected,
    Claim,
    None,
}

fn claim_text() -> String {
    "The task is complete.".to_owned()
}

/// The configuration that an item is tested with: its own, what all items have in common, and the table of
/// `ralph.toml` if there is no other.
#[derive(Clone, Debug)]
pub(super) struct TestedConfig {
    table: Map<String, Value>,
    env: BTreeMap<String, String>,
    skip: Vec<SkippedScenarios>,
    prompt_max: Option<usize>,
    workspace: Vec<CaseTable>,
    /// What the table is called in messages.
    location: String,
    source: Option<(PathBuf, String)>,
    /// Where the table is in the file.
    path: Vec<String>,
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
        let text = std::fs::read_to_string(file).map_err(|error| {
            let message = format!("--conformance {}: it cannot be read: {error}", file.display());
            CommandError::config(message).hinted(
                "expected a TOML file with `[config]`, `[env]`, `[[skip]]` and `[[workspace]]`",
            )
        })?;
        let config: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { source: Some((file.to_owned(), text)), ..config })
    }

    /// Returns the configuration of an item.
    pub(super) fn item(&self, item: &Item) -> TestedConfig {
        let own = self.items.get(&item.name).cloned().unwrap_or_default();
        let in_file = |path: &[&str]| path.iter().map(|key| (*key).to_owned()).collect();
        let of_ralph = table_of(&self.tables, item.kind, &item.name);
        let (table, location, path) = match (own.config, &self.config, of_ralph) {
            (Some(table), ..) => {
                (table, String::new(), in_file(&["items", item.name.as_str(), "config"]))
            }
            (None, Some(table), _) => (table.clone(), String::new(), in_file(&["config"])),
            (None, None, Some(found)) => {
                let table = found.value().as_object().cloned().unwrap_or_default();
                (table, found.location.to_owned(), Vec::new())
            }
            (None, None, None) => (Map::new(), String::new(), Vec::new()),
        };
        let mut env = self.env.clone();
        env.extend(own.env);
        TestedConfig {
            table,
            env,
            skip: self.skip.iter().cloned().chain(own.skip).collect(),
            prompt_max: own.prompt_max.or(self.prompt_max),
            workspace: self.workspace.iter().cloned().chain(own.workspace).collect(),
            location,
            source: self.source.clone(),
            path,
        }
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

impl TestedConfig {
    /// Returns variables for its processes.
    pub(super) const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// Returns the workspaces with their expected results.
    pub(super) fn cases(&self) -> Result<Vec<WorkspaceCase>, CommandError> {
        let case = |case: &CaseTable| {
            let expected = match case.expect {
                Expectation::Accepted => CaseExpectation::Accepted,
                Expectation::Rejected => CaseExpectation::Rejected,
                Expectation::Claim => CaseExpectation::Claim,
                Expectation::None => CaseExpectation::NoClaim,
            };
            let CaseTable { name, files, text, .. } = case.clone();
            if name.trim().is_empty() {
                let message = "--conformance: each [[workspace]] needs a name";
                return Err(CommandError::config(message));
            }
            Ok(WorkspaceCase { name, files, text, expected })
        };
        self.workspace.iter().map(case).collect()
    }

    /// Whether a text of the table has a placeholder.
    pub(super) fn has_placeholder(&self) -> bool {
        PLACEHOLDERS.iter().any(|placeholder| self.contains(placeholder))
    }

    fn contains(&self, text: &str) -> bool {
        Value::Object(self.table.clone()).to_string().contains(text)
    }

    /// Returns why an item was not built.
    pub(super) fn build_failure(&self, error: &BuildError) -> String {
        let error = self.located(error.clone());
        format!("it rejects its table: {error}")
    }

    /// Returns the error with the place of its key.
    pub(super) fn located(&self, error: BuildError) -> BuildError {
        let keys: Vec<&str> =
            error.key.iter().chain(&error.unknown_key).map(String::as_str).collect();
        let place = self.place(&keys);
        let keys = match keys.as_slice() {
            [] => String::new(),
            keys => format!("`{}`: ", keys.join(".")),
        };
        let message = format!("{place}{keys}{}", error.message);
        BuildError { key: Vec::new(), message, ..error }
    }

    /// Returns the place of a key in the file that configures the item, or what to write where there is none.
    fn place(&self, keys: &[&str]) -> String {
        if !self.location.is_empty() {
            return format!("{} of ralph.toml: ", self.location);
        }
        let Some((file, text)) = &self.source else {
            return "there is no configuration (`[config]` in conformance.toml): ".to_owned();
        };
        let path: Vec<&str> =
            self.path.iter().map(String::as_str).chain(keys.iter().copied()).collect();
        let file = file.display();
        match locate(text, &path) {
            Some((line, column)) => format!("{file}:{line}:{column}: "),
            None => format!("{file}: "),
        }
    }

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
        if !self.contains(MODEL) {
            let why = format!("its configuration has no {MODEL}: it asks no model");
            options = options.skip(&Scenario::WITH_MODEL, &why);
        }
        // An agent that asks no model does these only if it is configured to.
        for (placeholder, scenarios) in
            [(CLAIMS, &[Scenario::ClaimByTool, Scenario::Preview][..]), (NOTES, &[Scenario::Note])]
        {
            if !self.contains(placeholder) && !self.contains(MODEL) {
                options = options.skip(
                    scenarios,
                    &format!("its configuration has neither {placeholder} nor {MODEL}"),
                );
            }
        }
        Ok(options)
    }

    /// Returns the table, with the placeholders in its texts replaced.
    pub(super) fn table(&self, fixture: &Fixture) -> Value {
        let (mut claims, mut notes) = ("", "");
        let (says, runs) = match &fixture.behaviour {
            Behaviour::Message { text } => (text.as_str(), "true"),
            Behaviour::Command { command, text } => (text.as_str(), command.as_str()),
            Behaviour::Claim { claim, text } => {
                claims = claim;
                (text.as_str(), "true")
            }
            Behaviour::Note { note, text } => {
                notes = note;
                (text.as_str(), "true")
            }
            Behaviour::Hang | Behaviour::StallInMessage => ("", "sleep 1000"),
            Behaviour::HttpError { .. } => ("", "false"),
        };
        let model = fixture.model_url();
        let fill = |text: &str| {
            let text = text.replace(MODEL, &model).replace("{says}", says).replace("{runs}", runs);
            text.replace(CLAIMS, claims).replace(NOTES, notes)
        };
        filled(&Value::Object(self.table.clone()), &fill)
    }

    /// Returns the table without replacing placeholders.
    pub(super) fn plain_table(&self) -> Value {
        Value::Object(self.table.clone())
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

/// Returns line and column of the key that this path leads to, or of the last one on it that is there.
fn locate(text: &str, path: &[&str]) -> Option<(usize, usize)> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut span: Option<Range<usize>> = None;
    for name in path {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { break };
        span = Some(key.span());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    let before = text.get(..span?.start)?;
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before.get(line_start..)?.chars().count() + 1;
    Some((before.matches('\n').count() + 1, column))
}
