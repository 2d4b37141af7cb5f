//! How agents, detectors and validators are built from their tables.

use std::collections::BTreeMap;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_contract::{BuildContext, BuildError, Description};
use ralph_orchestrator_safe_fs::real_path;

use super::environment;
use crate::registry::FactoryMap;

/// Builds one agent, detector or validator.
///
/// # Errors
/// An unknown name or a mistake in its table, with its place.
pub(super) async fn make<T: ?Sized>(
    loaded: &LoadedConfig,
    kinds: &FactoryMap<T>,
    (name, word): (&str, &str),
    at: &[String],
    config: &serde_json::Value,
    context: &BuildContext,
) -> Result<Box<T>, ConfigErrors> {
    let below = |part: &str| at.iter().cloned().chain([part.to_owned()]).collect::<Vec<_>>();
    let Some(built) = kinds.build(name, config.clone(), context).await else {
        let key = match word {
            "adapter" => below("adapter"),
            "validator" => below("kind"),
            _ => at.to_vec(),
        };
        return Err(loaded.unknown_name_error(&key, name, word, &kinds.names()).into());
    };
    built.map_err(|BuildError { key, unknown_key, message }| {
        let is_table = !key.is_empty() || unknown_key.is_some();
        let mut path = match word {
            // A plugin that has no such item, or does not start, is a matter of its name.
            "adapter" if !is_table && message.starts_with("the plugin `") => below("adapter"),
            "validator" if !is_table && message.starts_with("the plugin `") => below("kind"),
            "adapter" => below("config"),
            _ => at.to_vec(),
        };
        path.extend(key);
        loaded.error_at(&path, unknown_key.as_deref(), &message).into()
    })
}

/// Returns what factories are given.
#[must_use]
pub fn build_context(loaded: &LoadedConfig, vars: &BTreeMap<String, String>) -> BuildContext {
    // Programs are searched where the processes themselves would find them.
    let path = loaded.config.env.set.get("PATH").or_else(|| vars.get("PATH"));
    BuildContext {
        config_dir: loaded.dir().to_owned(),
        workspace: real_path(&loaded.config.run.workspace),
        prompt_dir: loaded.prompt_dir().to_owned(),
        path: path.cloned().unwrap_or_default(),
    }
}

/// Returns what factories of agents are given.
#[must_use]
pub(super) fn build_agent_context(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
) -> BuildContext {
    BuildContext { config_dir: loaded.agent_dir().to_owned(), ..build_context(loaded, vars) }
}

/// Returns the environment of what belongs to no agent, out of the orchestrator's own.
#[must_use]
pub fn plain_environment(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    environment::build(&loaded.config.env, vars, &Description::default())
}

pub(super) fn error_at(loaded: &LoadedConfig, key: &[&str], message: &str) -> ConfigErrors {
    let key: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
    loaded.error_at(&key, None, message).into()
}
