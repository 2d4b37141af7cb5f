//! Errors about an agent's missing program, with the place of the key that names it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig, misspelt_within};
use ralph_orchestrator_contract::ErrorClass;
use ralph_orchestrator_engine::EngineError;
use ralph_orchestrator_supervisor::{NotFound, find_program};

use crate::error::CommandError;

/// Letters that may be wrong in the name of a program.
const MOST_WRONG: usize = 2;

/// Returns the error of a run that could not start. `agent` is the `NAME` of `--agent NAME`.
pub fn explain(
    error: EngineError,
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    agent: Option<&str>,
) -> CommandError {
    let is_missing = matches!(
        &error,
        EngineError::Agent { error, .. } if matches!(error.class, ErrorClass::Unavailable)
    );
    let named = if is_missing { check_program(loaded, vars, agent) } else { Ok(()) };
    named.err().unwrap_or_else(|| error.into())
}

/// Checks that the program is there that the table of an agent names, if it names one.
///
/// # Errors
/// It is not.
pub fn check_program(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    agent: Option<&str>,
) -> Result<(), CommandError> {
    let Some(errors) = missing_program(loaded, vars, agent) else { return Ok(()) };
    Err(CommandError::unavailable(errors)
        .hinted("`ralph-orchestrator doctor` checks everything that a run needs"))
}

/// The mistake in the key that names the program, if nothing of that name is there.
fn missing_program(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
    agent: Option<&str>,
) -> Option<ConfigErrors> {
    let (table, config) = match agent {
        Some(name) => (vec!["agents", name], loaded.config.agents.get(name)?),
        None => (vec!["agent"], &loaded.config.agent),
    };
    let mut key: Vec<String> = table.into_iter().map(str::to_owned).collect();
    key.extend(["config".to_owned(), "program".to_owned()]);
    let named = config.config.get("program")?;
    let name = match named.get(0) {
        Some(first) => {
            key.push("0".to_owned());
            first.as_str()?
        }
        None => named.as_str()?,
    };
    let path = loaded.config.env.set.get("PATH").or_else(|| vars.get("PATH"));
    let path = path.map(String::as_str).unwrap_or_default();
    let (message, near, help) = match find_program(name, path, loaded.agent_dir()).err()? {
        NotFound::InPath { name, .. } => {
            let message = format!("the program {name:?} is not in PATH");
            // What lies beside the configuration is meant, not what is called alike.
            let is_here = is_program(&loaded.agent_dir().join(&name));
            let near = if is_here { None } else { nearest_program(&name, path) };
            (
                message,
                near,
                is_here.then(|| {
                    format!("write \"./{name}\" for the one in {}", loaded.agent_dir().display())
                }),
            )
        }
        other => (other.to_string(), None, None),
    };
    let mut error = loaded.error_at(&key, None, &message);
    (error.suggestion, error.help) = (near, help);
    Some(error.into())
}

/// The program in the folders of `path` whose name is this one with few letters wrong. That one is a part of
/// the other says nothing about programs: there are too many.
fn nearest_program(name: &str, path: &str) -> Option<String> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let programs: Vec<String> = folders
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            is_program(&entry.path()).then(|| entry.file_name().into_string().ok()).flatten()
        })
        .collect();
    misspelt_within(MOST_WRONG, name, programs.iter().map(String::as_str)).map(str::to_owned)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
