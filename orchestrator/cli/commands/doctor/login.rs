//! Whether an agent is logged in, as far as its program can tell without spending anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::probe::probe;
use ralph_orchestrator_engine::ConfiguredAgent;
use serde_json::Value;

/// Variables by which Codex needs no login.
const CODEX_KEYS: [&str; 2] = ["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"];

/// Returns that the agent is not logged in, and what to do. `None` if it is, or if that is unknown.
pub(super) async fn find_problem(
    context: &Context,
    adapter: &str,
    driver: &ConfiguredAgent,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    let program = driver.agent().describe().program?;
    let folder = context.loaded.dir();
    match adapter {
        "claude-cli" | "claude-sdk" => check_claude(program, folder, env).await,
        "codex" => check_codex(program, folder, env).await,
        _ => None,
    }
}

async fn check_claude(
    program: PathBuf,
    folder: &Path,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    let output = probe(program, &["auth", "status"], folder, env.clone()).await?;
    let status: Value = serde_json::from_str(output.stdout.trim()).ok()?;
    (status.get("loggedIn") == Some(&Value::Bool(false))).then(|| {
        "Claude Code is not logged in: set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN, or run \
         `claude auth login`"
            .to_owned()
    })
}

async fn check_codex(
    program: PathBuf,
    folder: &Path,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    if CODEX_KEYS.iter().any(|key| env.get(*key).is_some_and(|value| !value.is_empty())) {
        return None;
    }
    let home = env.get("CODEX_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(env.get("HOME")?).join(".codex")))?;
    // Another provider has a key of its own, which `login status` does not know.
    let settings = fs::read_to_string(home.join("config.toml")).unwrap_or_default();
    if settings.contains("model_provider") {
        return None;
    }
    let output = probe(program, &["login", "status"], folder, env.clone()).await?;
    let says_no = format!("{}{}", output.stdout, output.stderr)
        .lines()
        .any(|line| line.trim() == "Not logged in");
    (!output.succeeded && says_no)
        .then(|| "Codex is not logged in: set CODEX_API_KEY, or run `codex login`".to_owned())
}
