//! The adapter, for the tests' rig.

use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::codex_binary;
use ralph_orchestrator_testkit::iteration::{self, Adapter};
use ralph_orchestrator_testkit::loopback::{IDLE, codex_config, codex_env};
use serde_json::Value;

pub(crate) use ralph_orchestrator_testkit::iteration::Sink;

pub(crate) type Rig = iteration::Rig<Codex>;

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

    fn settle(home: &Path, _tmp: &Path, model: &str) -> Vec<(&'static str, String)> {
        codex_config(home, model, IDLE);
        codex_env().into()
    }
}
