//! The setup of a checkout: run before the first checks, whose products are kept, and again where its inputs differ.

use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::PreparedCheckout;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};

use super::checkout_policy::CheckoutSetup;
use super::error::EngineError;
use super::session::Session;
use super::validation_task::ValidationTask;
use crate::workspace_setup::SetupContext;

/// More of an input than this is not read: a file that changes beyond it does so before it as well.
const MAX_INPUT: usize = 64 * 1024 * 1024;

impl CheckoutSetup {
    /// Returns the digest of what it depends on; `None` if it is to be run each time.
    fn digest_inputs(&self, workspace: &Path) -> Option<String> {
        if self.inputs.is_empty() {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for input in &self.inputs {
            let found = read_file(&workspace.join(input), MAX_INPUT, SymlinkPolicy::Follow);
            let text = found.unwrap_or_else(|error| error.to_string().into_bytes());
            hasher.update(blake3::hash(&text).as_bytes());
        }
        Some(hasher.finalize().to_hex().to_string())
    }

    fn input_names(&self) -> String {
        let names = self.inputs.iter().map(|input| input.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

impl Session {
    /// Returns the digest of the inputs if all that the setup makes is in the workspace.
    pub(super) fn find_installed(&self) -> Option<String> {
        let setup = self.context.policy.checkout.setup.as_ref()?;
        let workspace = &self.context.workspace;
        let is_there = |output: &PathBuf| workspace.join(output).exists();
        let is_installed = !setup.outputs.is_empty() && setup.outputs.iter().all(is_there);
        is_installed.then(|| setup.digest_inputs(workspace)).flatten()
    }
}

impl ValidationTask {
    /// Runs the setup in a checkout that has not what it makes. Returns the verdict on what is to be checked there if that
    /// fails: `Some(Err)`; `None` if it was cancelled.
    pub(super) async fn set_up_checkout(
        &self,
        prepared: &PreparedCheckout,
    ) -> Result<Option<Result<(), Verdict>>, EngineError> {
        let (Some(setup), Some(known)) = (&self.policy.checkout.setup, &self.checkout) else {
            return Ok(Some(Ok(())));
        };
        let inputs = setup.digest_inputs(&self.workspace);
        let has_products = prepared.has_base && inputs == known.set_up();
        if inputs.is_some() && (has_products || inputs == known.installed) {
            return Ok(Some(Ok(())));
        }
        let context = SetupContext {
            run: &self.run,
            iteration: self.iteration,
            workspace: &self.workspace,
            checkout: &prepared.overlays,
            env: &self.env,
        };
        let until_ms = self.clock.runtime_ms().saturating_add(millis(setup.timeout));
        let end = self.wait_end(until_ms, setup.timeout);
        let done = setup.run(context, end).await;
        let before = known.set_up().or_else(|| known.installed.clone());
        // With what was there before somebody changed it, it worked.
        let is_rejected = before.is_some() && inputs.is_some() && before != inputs;
        if self.keeps_base() && matches!(done, Some(Ok(()))) {
            known.record_setup(inputs);
        }
        Ok(done.map(|done| {
            done.map_err(|message| match is_rejected {
                true => Verdict::rejected(format!(
                    "{message}\nIt is run since one of these was changed: {}",
                    setup.input_names()
                )),
                false => Verdict::Error { message },
            })
        }))
    }
}
