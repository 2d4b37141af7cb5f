//! Agents that review: their processes see the work in a checkout of their own, and the orchestrator's own files read-only.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use ralph_orchestrator_contract::{Agent, BuildContext, LayeredFolder};
use ralph_orchestrator_engine::ReadOnlyAgents;
use ralph_orchestrator_engine::registry::{LaunchContext, Registry};
use ralph_orchestrator_supervisor::{Overlay, View};
use serde_json::Value;

/// Builds a registry whose agents have this view.
type MakeRegistry = Box<dyn Fn(View) -> Registry + Send + Sync>;

/// Makes agents that review.
pub(crate) struct ReviewingAgents {
    make: MakeRegistry,
    launch: Arc<OnceLock<LaunchContext>>,
}

impl ReviewingAgents {
    /// Returns what makes them with the registries that `make` builds, once the launch context is known.
    pub(crate) fn new(
        launch: Arc<OnceLock<LaunchContext>>,
        make: impl Fn(View) -> Registry + Send + Sync + 'static,
    ) -> Self {
        Self { make: Box::new(make), launch }
    }
}

#[async_trait]
impl ReadOnlyAgents for ReviewingAgents {
    async fn build(
        &self,
        adapter: &str,
        table: Value,
        context: &BuildContext,
        checkout: &[LayeredFolder],
    ) -> Result<Box<dyn Agent>, String> {
        let Some(launch) = self.launch.get() else {
            return Err("the run has not begun".to_owned());
        };
        let registry = (self.make)(view(checkout, &launch.orchestrator_paths));
        match registry.agents.build(adapter, table, context).await {
            Some(built) => built.map_err(|error| error.to_string()),
            None => Err(format!(
                "an agent of the adapter `{adapter}` works within the orchestrator, which cannot keep it from writing; \
                 review with another one"
            )),
        }
    }
}

/// Returns the checkout, and these paths read-only, but for what lies in the checkout: what is written there goes nowhere.
fn view(checkout: &[LayeredFolder], own: &[PathBuf]) -> View {
    let overlay = |folder: &LayeredFolder| {
        let LayeredFolder { target, layers, upper, work } = folder.clone();
        Overlay { target, layers, upper, work }
    };
    let overlays = checkout.iter().map(overlay).collect();
    View { overlays, mounts: Vec::new() }.with_read_only(own.iter().cloned())
}

#[cfg(test)]
mod tests {
    use ralph_orchestrator_supervisor::MountAccess;

    use super::*;

    #[test]
    fn what_is_not_in_the_checkout_is_mounted_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["work/.ralph", "state"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let checkout = LayeredFolder {
            target: root.join("work"),
            layers: vec![root.join("work")],
            upper: root.join("state/upper"),
            work: root.join("state/work"),
        };
        let own = ["work/.ralph", "state", "gone"].map(|name| root.join(name));
        let view = view(std::slice::from_ref(&checkout), &own);
        assert_eq!(view.overlays.len(), 1);
        let mounts: Vec<_> =
            view.mounts.iter().map(|mount| (&mount.target, mount.access)).collect();
        assert_eq!(mounts, [(&root.join("state"), MountAccess::ReadOnly)]);
    }
}
