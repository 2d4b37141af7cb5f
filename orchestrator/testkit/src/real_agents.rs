//! Real agents, installed for tests.

use std::path::{Path, PathBuf};

/// The real `claude`, of the version pinned in `tests/agents/package-lock.json`.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn claude_binary() -> PathBuf {
    installed("claude")
}

/// The real `codex`, of the version pinned in `tests/agents/package-lock.json`.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn codex_binary() -> PathBuf {
    installed("codex")
}

/// Claude Code behind the Agent Client Protocol, of the version pinned in
/// `tests/agents/package-lock.json`.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn claude_agent_acp() -> PathBuf {
    installed("claude-agent-acp")
}

/// Codex behind the Agent Client Protocol, of the version pinned in `tests/agents/package-lock.json`.
/// It wants `CODEX_PATH`.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn codex_acp() -> PathBuf {
    installed("codex-acp")
}

fn installed(name: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two folders below the repository's root");
    let program = repository.join("target/agents/node_modules/.bin").join(name);
    assert!(
        program.exists(),
        "{} is missing: run `scripts/install-agents` in {} once",
        program.display(),
        repository.display()
    );
    program
}
