//! How agents, detectors and validators are built from their tables.

use std::collections::BTreeMap;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_contract::{BuildContext, BuildError, Description, FactoryError};
use ralph_orchestrator_safe_fs::real_path;

use super::environment;
use crate::registry::FactoryMap;

/// What a factory builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Adapter,
    Detector,
    Validator,
}

impl PartKind {
    /// Returns its word in messages.
    const fn word(self) -> &'static str {
        match self {
            Self::Adapter => "adapter",
            Self::Detector => "detector",
            Self::Validator => "validator",
        }
    }

    /// Returns where the name of a part stands that is configured at these keys.
    fn name_key(self, at: &[String]) -> Vec<String> {
        match self {
            Self::Adapter => below(at, "adapter"),
            Self::Detector => at.to_vec(),
            Self::Validator => below(at, "kind"),
        }
    }

    /// Returns where its own table stands.
    fn table_key(self, at: &[String]) -> Vec<String> {
        match self {
            Self::Adapter => below(at, "config"),
            Self::Detector | Self::Validator => at.to_vec(),
        }
    }
}

fn below(at: &[String], part: &str) -> Vec<String> {
    at.iter().cloned().chain([part.to_owned()]).collect()
}

/// Builds one agent, detector or validator.
///
/// # Errors
/// An unknown name or a mistake in its table, with its place.
pub(super) async fn make<T: ?Sized>(
    loaded: &LoadedConfig,
    kinds: &FactoryMap<T>,
    (kind, name): (PartKind, &str),
    at: &[String],
    config: &serde_json::Value,
    context: &BuildContext,
) -> Result<Box<T>, ConfigErrors> {
    let Some(built) = kinds.build(name, config.clone(), context).await else {
        let key = kind.name_key(at);
        return Err(loaded.unknown_name_error(&key, name, kind.word(), &kinds.names()).into());
    };
    built.map_err(|error| match error {
        FactoryError::Unavailable(message) => {
            loaded.error_at(&kind.name_key(at), None, &message).into()
        }
        FactoryError::Table(BuildError { key, unknown_key, message }) => {
            let path = [kind.table_key(at), key].concat();
            loaded.error_at(&path, unknown_key.as_deref(), &message).into()
        }
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
