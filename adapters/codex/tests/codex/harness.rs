//! The adapter, for the tests' harness.

use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::agent_env::{IDLE, codex_config, codex_env};
use ralph_orchestrator_testkit::agent_harness::{Adapter, AgentHarness};
use ralph_orchestrator_testkit::codex_binary;
use serde_json::Value;

pub(crate) use ralph_orchestrator_testkit::RecordingSink;

pub(crate) type Harness = AgentHarness<Codex>;

pub(crate) struct Codex;

impl Adapter for Codex {
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError> {
        ralph_adapter_codex::build(config, context, supervisor)
    }

    fn program() -> PathBuf {
        codex_binary()
    }

    fn configure_model(home: &Path, _tmp: &Path, model: &str) -> Vec<(&'static str, String)> {
        codex_config(home, model, IDLE);
        codex_env().into()
    }
}
