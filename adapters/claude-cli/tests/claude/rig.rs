//! The adapter, for the tests' rig.

use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::iteration::{self, Adapter};
use serde_json::Value;

pub(crate) use ralph_orchestrator_testkit::iteration::Sink;

pub(crate) type Rig = iteration::Rig<ClaudeCli>;

pub(crate) struct ClaudeCli;

impl Adapter for ClaudeCli {
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError> {
        ralph_adapter_claude_cli::build(config, context, supervisor)
    }
}
