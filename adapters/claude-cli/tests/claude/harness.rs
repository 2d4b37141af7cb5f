//! The adapter, for the tests' harness.

use ralph_orchestrator_contract::{Agent, BuildContext, BuildError};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::agent_harness::{Adapter, AgentHarness};
use serde_json::Value;

pub(crate) use ralph_orchestrator_testkit::RecordingSink;

pub(crate) type Harness = AgentHarness<ClaudeCli>;

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
