//! The agent.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_adapter_common::claude_program::ClaudeProgram;
use ralph_adapter_common::{ProcessRun, WriteGuard, spawn_with_input};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Capabilities, Description, EventSink, Iteration, Launch,
    Report,
};
use ralph_orchestrator_supervisor::Supervisor;

use crate::config::Config;
use crate::policy::Policy;
use crate::session::{SdkSession, Settings};

pub(crate) struct ClaudeSdk {
    config: Config,
    program: ClaudeProgram,
    policy: Policy,
}

impl ClaudeSdk {
    pub(crate) fn new(
        config: Config,
        context: &BuildContext,
        supervisor: &Supervisor,
        guard: WriteGuard,
    ) -> Self {
        let options = &config.options;
        let bypass = options.bypasses_permissions().then_some("permissions.allow");
        let program = ClaudeProgram::new(&options.program, context, supervisor, bypass);
        let policy = Policy::new(config.deny.clone(), guard);
        Self { config, program, policy }
    }
}

#[async_trait]
impl Agent for ClaudeSdk {
    fn describe(&self) -> Description {
        let Config { options, handoff_at, max_rejections, .. } = &self.config;
        let more = Capabilities {
            handoff: handoff_at.is_some(),
            in_session_validation: *max_rejections > 0,
            ..Capabilities::default()
        };
        self.program.describe("claude-sdk", "Agent SDK protocol", options.model.clone(), more)
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.program.check(env).await
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        Some(self.program.launch(task, &self.config.argv(task.budget.cost)))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let args = self.config.argv(task.budget.cost);
        let spec = self.program.spec(&task, args, Vec::new())?;
        let supervisor = self.program.supervisor();
        let (process, input) = spawn_with_input(supervisor, spec, events).await?;
        let settings = Settings {
            policy: &self.policy,
            bypass: self.config.options.bypasses_permissions(),
            handoff_at: self.config.handoff_at,
            max_rejections: self.config.max_rejections,
        };
        let session = SdkSession::new(input, &task, events, settings);
        ProcessRun::new(process, events, session).run().await
    }
}
