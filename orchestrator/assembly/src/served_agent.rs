//! An agent of a plugin, beside which the orchestrator's tools are served.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ralph_adapter_common::agent_tools::ToolServer;
use ralph_orchestrator_contract::{
    Agent, AgentError, Description, EventSink, Iteration, Launch, Report,
};

/// Serves the tools of each iteration while the agent works: what a plugin has to know of them is in the
/// iteration's private folder.
pub struct ServedAgent(pub Box<dyn Agent>);

#[async_trait]
impl Agent for ServedAgent {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.0.check(env).await
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        self.0.launch(task)
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let served = task.clone();
        ToolServer::beside(&served, events, self.0.run(task, events)).await
    }
}
