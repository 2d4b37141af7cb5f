//! The adapter and its agents, for the tests' harness.

use std::path::Path;

use ralph_adapter_acp::WriteGuard;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::agent_env::{IDLE, claude_env, codex_config, codex_env};
use ralph_orchestrator_testkit::agent_harness::{Adapter, AgentHarness};
use ralph_orchestrator_testkit::{claude_agent_acp, codex_acp, codex_binary};
use serde_json::{Value, json};

pub(crate) use ralph_orchestrator_testkit::RecordingSink;

pub(crate) type Harness = AgentHarness<Acp>;

pub(crate) struct Acp;

/// The folder in the workspace that is guarded.
pub(crate) const GUARDED: &str = "guarded";

impl Adapter for Acp {
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError> {
        let guarded = context.workspace.join(GUARDED);
        let guard = WriteGuard::new(move |path| path.starts_with(&guarded));
        ralph_adapter_acp::build(config, context, supervisor, guard)
    }

    /// Both agents at once.
    fn configure_model(home: &Path, tmp: &Path, model: &str) -> Vec<(&'static str, String)> {
        codex_config(home, model, IDLE);
        let codex = codex_binary().to_str().unwrap().to_owned();
        let codex = codex_env().into_iter().chain([("CODEX_PATH", codex)]);
        claude_env(model, tmp).into_iter().chain(codex).collect()
    }
}

/// A real agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Real {
    Claude,
    Codex,
}

impl Real {
    pub(crate) const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// `[agent.config]`, with everything allowed.
    pub(crate) fn config(self) -> Value {
        match self {
            Self::Claude => json!({"program": [claude_agent_acp()], "mode": "bypassPermissions"}),
            // Its own sandbox does not work in every container.
            Self::Codex => json!({"program": [codex_acp()], "mode": "agent-full-access"}),
        }
    }

    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Claude => "Bash",
            Self::Codex => "exec_command",
        }
    }
}
