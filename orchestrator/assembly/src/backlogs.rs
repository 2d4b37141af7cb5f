//! The backlog of a configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use ralph_orchestrator_backlog::{Backlog, GuardRules};
use ralph_orchestrator_config::{
    AgentCompletions, BacklogConfig, ConfigErrors, LoadedConfig, VALIDATOR_TIMEOUT, ValidatorConfig,
};
use ralph_orchestrator_contract::{BuildError, FactoryError};
use ralph_orchestrator_driver::ItemLimits;
use ralph_orchestrator_engine::build_context;
use ralph_orchestrator_engine::registry::FactoryMap;
use serde_json::{Value, json};

use crate::compiled_in::CompiledIn;
use crate::error::CommandError;
use crate::registry;

/// Returns the backlog of a configuration, which is not read yet; `None` if it has none. `register`
/// makes formats known that are not built in.
///
/// # Errors
/// There is no such format, or it cannot be built.
pub async fn find(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    compiled_in: &CompiledIn,
    register: impl FnOnce(&mut FactoryMap<dyn Backlog>) -> Result<(), CommandError>,
) -> Result<Option<Arc<dyn Backlog>>, CommandError> {
    let Some(backlog) = &loaded.config.backlog else { return Ok(None) };
    let kind = &backlog.kind;
    let key = |parts: &[&str]| -> Vec<String> {
        ["backlog"].iter().chain(parts).map(|part| (*part).to_owned()).collect()
    };
    let table = format_table(backlog);
    let mut formats = registry::backlogs(compiled_in);
    if !formats.contains(kind) {
        register(&mut formats)?;
    }
    let build = build_context(loaded, vars);
    match formats.build(kind, table, &build).await {
        Some(Ok(backlog)) => Ok(Some(Arc::from(backlog))),
        Some(Err(FactoryError::Unavailable(message))) => {
            let error = loaded.error_at(&key(&[]), None, &message);
            Err(ConfigErrors::from(error).into())
        }
        Some(Err(FactoryError::Table(BuildError { key: parts, unknown_key, message }))) => {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let error = loaded.error_at(&key(&parts), unknown_key.as_deref(), &message);
            Err(ConfigErrors::from(error).into())
        }
        None => {
            let names = formats.names();
            let error = loaded.unknown_name_error(&key(&["kind"]), kind, "kind of backlog", &names);
            Err(ConfigErrors::from(error).into())
        }
    }
}

/// Returns what a format is given of `[backlog]`: the keys that the user wrote.
fn format_table(backlog: &BacklogConfig) -> Value {
    let BacklogConfig { path, tracker, order, .. } = backlog;
    let given = [
        ("path", path.as_ref().map(|path| json!(path))),
        ("repository", tracker.repository.as_ref().map(|repository| json!(repository))),
        ("label", tracker.label.as_ref().map(|label| json!(label))),
        ("labels", tracker.labels.as_ref().map(|labels| json!(labels))),
        ("order", order.map(|order| json!(order))),
    ];
    given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns what agents may change, as the configuration has it.
pub fn guard_rules(config: &BacklogConfig) -> GuardRules {
    GuardRules {
        completions: match config.agent_completions {
            AgentCompletions::Revert => ralph_orchestrator_backlog::AgentCompletions::Revert,
            AgentCompletions::Keep => ralph_orchestrator_backlog::AgentCompletions::Keep,
        },
    }
}

/// Returns what an item may use before it is blocked, as the configuration has it.
pub fn item_limits(config: &BacklogConfig) -> ItemLimits {
    ItemLimits {
        max_iterations: config.max_item_iterations,
        max_cost_usd: config.max_item_cost_usd,
    }
}

/// The name of the check that each item has by `backlog.check`.
const CHECK: &str = "backlog.check";

/// Adds the check of an item with this id and command to the validators, if `backlog.check` names one.
///
/// # Errors
/// It cannot be written as TOML.
pub fn add_item_check(
    loaded: &mut LoadedConfig,
    item: &str,
    verify: Option<&str>,
) -> Result<(), ConfigErrors> {
    let config = &loaded.config;
    let program = config.backlog.as_ref().map(|backlog| backlog.check_of(item, verify));
    let Some(program) = program.filter(|program| !program.is_empty()) else { return Ok(()) };
    let workspace = &config.run.workspace;
    let file = |word: &String| {
        let relative = word.strip_prefix("./").unwrap_or(word);
        let is_file = !relative.starts_with(['/', '-']) && workspace.join(relative).is_file();
        is_file.then(|| relative.to_owned())
    };
    let protect: Vec<String> = program.iter().filter_map(file).collect();
    let index = config.validators.len();
    loaded.add_validator(ValidatorConfig {
        kind: "command".to_owned(),
        name: CHECK.to_owned(),
        required: true,
        timeout: VALIDATOR_TIMEOUT,
        artefacts: Vec::new(),
        config: json!({"program": program, "protect": protect}),
        index,
    })
}
