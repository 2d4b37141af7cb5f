//! Whether somebody is logged in, as far as Codex can tell without spending anything.

use std::collections::BTreeMap;

use ralph_adapter_common::Program;
use ralph_orchestrator_contract::{AgentError, ErrorClass};
use ralph_orchestrator_safe_fs::read_if_exists;

use crate::environment::codex_home;

/// Variables by which Codex needs no login.
const KEYS: [&str; 2] = ["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"];
/// A longer configuration is not read.
const LONGEST_CONFIG: usize = 1024 * 1024;
/// What names another provider, which has a key of its own.
const PROVIDER: &str = "model_provider";

/// Asks Codex whether it is logged in, if it needs to be.
///
/// # Errors
/// It is not.
pub(crate) async fn check(
    program: &Program,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> Result<(), AgentError> {
    let has_key = KEYS.iter().any(|key| env.get(*key).is_some_and(|value| !value.is_empty()));
    let is_elsewhere = args.iter().any(|arg| arg == "--oss" || arg.contains(PROVIDER));
    // In a file system of its own its home is not the one that is read here.
    if has_key || is_elsewhere || program.supervisor().has_root() || has_provider(env) {
        return Ok(());
    }
    let Some((succeeded, text)) = program.ask(&["login", "status"], env.clone()).await else {
        return Ok(());
    };
    if succeeded || !text.lines().any(|line| line.trim() == "Not logged in") {
        return Ok(());
    }
    let message = "Codex is not logged in: set CODEX_API_KEY, or run `codex login`";
    Err(AgentError::new(ErrorClass::Unauthenticated, message))
}

/// Whether its own configuration names another provider, or cannot be read.
fn has_provider(env: &BTreeMap<String, String>) -> bool {
    let Some(home) = codex_home(env) else { return false };
    match read_if_exists(&home.join("config.toml"), LONGEST_CONFIG) {
        Ok(settings) => {
            let settings = settings.unwrap_or_default();
            String::from_utf8_lossy(&settings).contains(PROVIDER)
        }
        Err(_) => true,
    }
}
