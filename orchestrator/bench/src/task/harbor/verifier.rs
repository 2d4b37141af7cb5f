//! The tables about agents, verifiers, artifacts and steps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::super::settings::{
    AgentSettings, Artifact, CollectCommand, Healthcheck, MAIN_SERVICE, NetworkPolicy, RewardGate,
    User,
};
use super::super::toml_table::{TableReader, TomlText, as_number, as_string};

use super::environment::{
    EnvironmentTable, require_string, take_environment, take_healthcheck, take_user,
};
use super::network::take_network;

/// `[verifier]`, as it is written for a task or a step.
#[derive(Default)]
pub(super) struct VerifierTable {
    pub(super) timeout: Option<Duration>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) user: Option<User>,
    pub(super) network: Option<NetworkPolicy>,
    pub(super) is_separate: Option<bool>,
    pub(super) environment: Option<EnvironmentTable>,
    pub(super) collect: Vec<CollectCommand>,
}

impl VerifierTable {
    /// Whether the verifier has an environment of its own, as far as this table says.
    pub(super) fn mode(&self) -> Option<bool> {
        self.is_separate.or_else(|| self.environment.is_some().then_some(true))
    }
}

/// `[[steps]]`, as it is written.
pub(super) struct StepTable {
    pub(super) name: String,
    pub(super) agent: AgentSettings,
    pub(super) verifier: VerifierTable,
    pub(super) min_reward: Option<RewardGate>,
    pub(super) healthcheck: Option<Healthcheck>,
    pub(super) artifacts: Vec<Artifact>,
}

/// Reads `[agent]`.
pub(super) fn take_agent(text: &mut TomlText<'_>, parent: &mut TableReader<'_>) -> AgentSettings {
    let Some(mut table) = parent.take_table(text, "agent") else { return AgentSettings::default() };
    let agent = AgentSettings {
        timeout: table.take_seconds(text, "timeout_sec", false),
        user: take_user(text, &mut table),
        network: take_network(text, &mut table),
    };
    table.finish(text);
    agent
}

/// Reads `[verifier]`.
pub(super) fn take_verifier(
    text: &mut TomlText<'_>,
    parent: &mut TableReader<'_>,
) -> VerifierTable {
    let Some(mut table) = parent.take_table(text, "verifier") else {
        return VerifierTable::default();
    };
    let modes = [("shared", false), ("separate", true)];
    let verifier = VerifierTable {
        timeout: table.take_seconds(text, "timeout_sec", false),
        env: table.take_string_map(text, "env"),
        user: take_user(text, &mut table),
        network: take_network(text, &mut table),
        is_separate: table.take_word(text, "environment_mode", &modes),
        environment: table
            .take_table(text, "environment")
            .map(|environment| take_environment(text, environment)),
        collect: table
            .take_tables(text, "collect")
            .into_iter()
            .filter_map(|command| take_collect(text, command))
            .collect(),
    };
    if verifier.is_separate == Some(false) && verifier.environment.is_some() {
        let message = "`environment_mode = \"shared\"` contradicts the verifier's `environment`: remove one of them";
        text.error(&table.span(), message);
    }
    table.finish(text);
    verifier
}

fn take_collect(text: &mut TomlText<'_>, mut table: TableReader<'_>) -> Option<CollectCommand> {
    let command = require_string(text, &mut table, "command");
    let service = take_service(text, &mut table);
    let collect = CollectCommand {
        service: service.unwrap_or_else(|| MAIN_SERVICE.to_owned()),
        timeout: table.take_seconds(text, "timeout_sec", false).unwrap_or(Duration::from_secs(60)),
        user: take_user(text, &mut table),
        command: command?,
    };
    table.finish(text);
    Some(collect)
}

fn take_service(text: &mut TomlText<'_>, table: &mut TableReader<'_>) -> Option<String> {
    let service = table.take_string(text, "service")?;
    let name = service.get_ref().trim();
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_inner) {
        return Some(name.to_owned());
    }
    let key = table.name("service");
    text.error(
        &service.span(),
        format!("`{key}` is \"{name}\", expected letters, digits, `-`, `_` and `.`, beginning with a letter or digit"),
    );
    None
}

/// Reads a list of artifacts: paths, or tables.
pub(super) fn take_artifacts(
    text: &mut TomlText<'_>,
    parent: &mut TableReader<'_>,
) -> Vec<Artifact> {
    let name = parent.name("artifacts");
    let values = parent.take_list(text, "artifacts");
    let mut artifacts = Vec::new();
    for (at, value) in values.into_iter().enumerate() {
        let span = value.span();
        let artifact = if let Some(source) = as_string(&value) {
            let source = source.into_inner();
            Some(Artifact { source, destination: None, exclude: Vec::new(), service: None })
        } else {
            let path = format!("{name}[{at}]");
            TableReader::from_value(text, path, value, "a path or a table")
                .and_then(|table| take_artifact(text, table))
        };
        let Some(artifact) = artifact else { continue };
        match find_artifact_fault(&artifact) {
            Some(fault) => text.error(&span, fault),
            None => artifacts.push(artifact),
        }
    }
    artifacts
}

fn take_artifact(text: &mut TomlText<'_>, mut table: TableReader<'_>) -> Option<Artifact> {
    let source = require_string(text, &mut table, "source");
    let artifact = Artifact {
        destination: table.take_plain_string(text, "destination").filter(|path| !path.is_empty()),
        exclude: table.take_plain_strings(text, "exclude"),
        service: take_service(text, &mut table),
        source: source?,
    };
    table.finish(text);
    Some(artifact)
}

/// Returns what is wrong with the paths of an artifact.
fn find_artifact_fault(artifact: &Artifact) -> Option<String> {
    let has_parent = |path: &str| path.split('/').any(|part| part == "..");
    let source = &artifact.source;
    if has_parent(source) {
        return Some(format!(
            "the artifact's source \"{source}\" has `..` in it: write the path without"
        ));
    }
    let is_sidecar = artifact.service.as_deref().is_some_and(|service| service != MAIN_SERVICE);
    if is_sidecar && !source.starts_with('/') {
        return Some(format!(
            "the artifact's source \"{source}\" is of another service: write an absolute path"
        ));
    }
    let destination = artifact.destination.as_deref()?;
    let is_usable = !destination.starts_with('/')
        && !destination.contains('\\')
        && !has_parent(destination)
        && destination.split('/').any(|part| !matches!(part, "" | "."))
        && destination.trim_end_matches('/') != "manifest.json";
    (!is_usable).then(|| {
        format!(
            "the artifact's destination \"{destination}\" is not usable: write a relative path with `/`, without \
             `..`, and another one than manifest.json"
        )
    })
}

/// Reads `[[steps]]`.
pub(super) fn take_steps(text: &mut TomlText<'_>, parent: &mut TableReader<'_>) -> Vec<StepTable> {
    let mut steps: Vec<StepTable> = Vec::new();
    for mut table in parent.take_tables(text, "steps") {
        let span = table.span();
        let name = require_string(text, &mut table, "name");
        let step = StepTable {
            agent: take_agent(text, &mut table),
            verifier: take_verifier(text, &mut table),
            min_reward: take_gate(text, &mut table),
            healthcheck: table
                .take_table(text, "healthcheck")
                .and_then(|check| take_healthcheck(text, check)),
            artifacts: take_artifacts(text, &mut table),
            name: name.unwrap_or_default(),
        };
        table.finish(text);
        if !is_step_name(&step.name) {
            if !step.name.is_empty() {
                text.error(
                    &span,
                    format!("\"{}\" is not usable as the name of a folder below steps/", step.name),
                );
            }
        } else if steps.iter().any(|other| other.name.to_lowercase() == step.name.to_lowercase()) {
            text.error(&span, format!("a step before this one has the name \"{}\" too", step.name));
        } else {
            steps.push(step);
        }
    }
    steps
}

/// Whether a name is one plain folder name on every file system.
fn is_step_name(name: &str) -> bool {
    let is_folder = PathBuf::from(name).components().count() == 1 && !matches!(name, "." | "..");
    let is_special = |c: char| c.is_control() || "<>:\"/\\|?*".contains(c);
    is_folder && name.len() <= 255 && !name.contains(is_special) && !name.ends_with(['.', ' '])
}

/// Reads `min_reward`: a number for the key "reward", or a table of numbers.
fn take_gate(text: &mut TomlText<'_>, table: &mut TableReader<'_>) -> Option<RewardGate> {
    let value = table.take("min_reward")?;
    let name = table.name("min_reward");
    if matches!(value.get_ref(), DeValue::Table(_)) {
        let table = TableReader::from_value(text, name, value, "a table")?;
        return Some(RewardGate(table.into_number_map(text)));
    }
    if let Some(number) = as_number(&value) {
        return Some(RewardGate(BTreeMap::from([(crate::trial::REWARD.to_owned(), number)])));
    }
    let span = Spanned::span(&value);
    text.error(&span, format!("`{name}` is neither a finite number nor a table of them"));
    None
}
