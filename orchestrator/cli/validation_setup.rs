//! What decides about completion, outside of any run.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_core::engine::{CompletionPolicy, ConfiguredAgent, build_context};
use ralph_orchestrator_core::registry::{LaunchContext, Registry};
use ralph_orchestrator_supervisor::KillSwitch;

use crate::context::Context;
use crate::error::CommandError;
use crate::plugins::Plugins;
use crate::registry;
use crate::sandbox::SandboxPolicy;

/// The validators of a configuration as a run would have them, with its first agent and the environment of both.
pub(crate) struct ValidationSetup {
    pub(crate) registry: Registry,
    pub(crate) build: BuildContext,
    pub(crate) policy: CompletionPolicy,
    pub(crate) agent: ConfiguredAgent,
    pub(crate) env: BTreeMap<String, String>,
}

impl ValidationSetup {
    /// Builds them from their tables.
    ///
    /// # Errors
    /// A table is wrong.
    pub(crate) async fn build(
        context: &Context,
        plugins: &Plugins,
        sandbox: Option<&SandboxPolicy>,
    ) -> Result<Self, CommandError> {
        let registry = registry::for_run(plugins, sandbox, KillSwitch::default());
        let build = build_context(&context.loaded, &context.vars);
        let policy = CompletionPolicy::build(&context.loaded, &registry, &build).await?;
        registry.set_launch_context(LaunchContext {
            protects: policy.protects(),
            ..LaunchContext::default()
        });
        let agent = ConfiguredAgent::build(&context.loaded, &registry, &build, None).await?;
        let env = agent.environment(&context.loaded, &context.vars);
        Ok(Self { registry, build, policy, agent, env })
    }
}
