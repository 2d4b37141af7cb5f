//! Agents that read the work and can write nothing of it: what makes them.

use async_trait::async_trait;
use ralph_orchestrator_contract::{Agent, BuildContext, LayeredFolder};
use serde_json::Value;

/// Makes agents that can write neither the work nor what is the orchestrator's. The engine itself starts no process.
#[async_trait]
pub trait ReadOnlyAgents: Send + Sync {
    /// Builds an agent from the name of its adapter and its table. Its processes see these folders in the place of what is there,
    /// and what they write in them is in [`LayeredFolder::upper`]; none of them is left when it has run.
    ///
    /// # Errors
    /// Why it cannot be built.
    async fn build(
        &self,
        adapter: &str,
        table: Value,
        context: &BuildContext,
        checkout: &[LayeredFolder],
    ) -> Result<Box<dyn Agent>, String>;
}
