//! Whether an agent is logged in, as far as its program can tell without spending anything. Codex says so when a run
//! asks whether it is available.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::probe::probe;
use ralph_orchestrator_engine::ConfiguredAgent;
use serde_json::Value;

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
