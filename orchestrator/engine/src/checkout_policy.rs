//! Where the checks of a run are run, and what has to be done there before: decided when it begins.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_config::{CheckPlace, ConfigErrors, LoadedConfig, Validation};
use ralph_orchestrator_contract::{BuildContext, Verdict};

use super::execution::{Execution, WaitEnd};
use super::setup_builder::build_setup;
use crate::registry::Registry;
use crate::workspace_setup::{SetupContext, WorkspaceSetup};

/// Where checks are run, and what has to be done there before.
pub(super) struct CheckoutPolicy {
    /// Without one, in a checkout if that can be had.
    pub(super) place: Option<CheckPlace>,
    /// Relative to the workspace: what checks see as it is, whatever git ignores.
    pub(super) link: Vec<PathBuf>,
    pub(super) setup: Option<CheckoutSetup>,
}

/// What prepares a checkout for checks.
pub(super) struct CheckoutSetup {
    pub(super) command: Arc<dyn WorkspaceSetup>,
    /// Relative to the workspace: while they are as they were before the first checks, what it made then is still right.
    pub(super) inputs: Vec<PathBuf>,
    /// Relative to the workspace: what it makes.
    pub(super) outputs: Vec<PathBuf>,
    pub(super) timeout: Duration,
}

impl CheckoutPolicy {
    pub(super) fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
    ) -> Result<Self, ConfigErrors> {
        let Validation { place, setup, setup_inputs, setup_outputs, setup_timeout, link, .. } =
            &loaded.config.validation;
        let command = build_setup(loaded, "validation", setup, (registry, context))?;
        let setup = command.map(|command| CheckoutSetup {
            command,
            inputs: setup_inputs.clone(),
            outputs: setup_outputs.clone(),
            timeout: *setup_timeout,
        });
        Ok(Self { place: *place, link: link.clone(), setup })
    }
}

impl CheckoutSetup {
    /// Runs it until `end`. Returns why it failed, if it did; `None` if it was cancelled.
    pub(super) async fn run(
        &self,
        context: SetupContext<'_>,
        end: impl Future<Output = WaitEnd>,
    ) -> Option<Result<(), String>> {
        let execution = Execution::default();
        let work = async {
            match self.command.run(context, &execution.cancel).await {
                Ok(()) => Verdict::Accepted { summary: String::new(), evidence: Vec::new() },
                Err(message) => Verdict::Error { message },
            }
        };
        Some(match execution.wait(Box::pin(work), end).await? {
            Verdict::Error { message } => Err(format!(
                "the setup of the checkout, `{}` (`validation.setup`), failed: {message}",
                self.command.command()
            )),
            Verdict::Accepted { .. } | Verdict::Rejected { .. } => Ok(()),
        })
    }
}
