//! The checkout in which the checks of a run are run: recorded when it begins, opened again when it is resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_checkout::{Checkout, CheckoutSource};
use ralph_orchestrator_config::CheckPlace;
use ralph_orchestrator_machine::Effect;
use ralph_orchestrator_store::{Layout, StateError};
use ralph_orchestrator_workspace::common_git_folder;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::blocking::blocking;
use super::error::EngineError;
use super::session::Session;

/// What agents are given by the orchestrator, in the workspace.
const OWN: &str = ".ralph";
/// What is stored of it, in JSON.
#[derive(Serialize, Deserialize)]
struct StoredCheckout {
    digest: String,
}

impl Session {
    /// Records the workspace as a new run finds it, if its checks are to be run in a checkout.
    pub(super) async fn begin_checkout(&mut self) -> Result<(), EngineError> {
        if self.context.config.validation.place != CheckPlace::Checkout {
            return Ok(());
        }
        let (source, storage) = (self.checkout_source(), self.checkout_storage());
        let begun = blocking(move || Checkout::begin(source, &storage)).await??;
        let stored = serde_json::to_string(&StoredCheckout { digest: begun.digest().to_owned() })
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        self.journal.store.write_signed_file(Layout::CHECKOUT, &stored)?;
        let begun = Arc::new(begun);
        self.checkout = Some(Arc::clone(&begun));
        if self.is_explained() {
            let pinned = Arc::clone(&self.observer.pinned);
            let keep = move || begun.keep_start(&|path| pinned.contains(path));
            self.start_copies = Some(spawn_blocking(keep));
        }
        Ok(())
    }

    /// Waits for the copies of what counted when the run began. They are made beside the checks before any work, which
    /// change no file of the workspace.
    pub(super) async fn finish_start_copies(&mut self, next: &Effect) -> Result<(), EngineError> {
        let is_read_only = matches!(next, Effect::Observe | Effect::CheckBaseline);
        if is_read_only && self.setup_before(next).is_none() {
            return Ok(());
        }
        let Some(copies) = self.start_copies.take() else { return Ok(()) };
        Ok(copies.await.map_err(|error| EngineError::Internal(error.to_string()))??)
    }

    /// Opens what was recorded when the run began.
    pub(super) async fn resume_checkout(&mut self) -> Result<(), EngineError> {
        if self.context.config.validation.place != CheckPlace::Checkout {
            return Ok(());
        }
        let Some(stored) = self.journal.store.read_signed_file(Layout::CHECKOUT)? else {
            self.start.notes.push(
                "the run began with `validation.where = \"workspace\"`, so its checks go on in the workspace; \
                 `run --restart` begins one whose checks run in a checkout"
                    .to_owned(),
            );
            return Ok(());
        };
        let stored: StoredCheckout = serde_json::from_str(&stored).map_err(|error| {
            StateError::Damaged { path: Layout::CHECKOUT.into(), problem: error.to_string() }
        })?;
        let (source, storage) = (self.checkout_source(), self.checkout_storage());
        let opened = blocking(move || Checkout::open(source, &storage, stored.digest)).await??;
        self.checkout = Some(Arc::new(opened));
        Ok(())
    }

    fn checkout_storage(&self) -> PathBuf {
        self.journal.store.layout().checkout(&self.context.run)
    }

    /// Returns what the checkout is of. What is no part of the work, and not ignored either, checks see as it is.
    fn checkout_source(&self) -> CheckoutSource {
        let evidence = self.context.policy.evidence_dirs();
        let prompts = self.prompts.source.files().map(Path::to_owned);
        let backlog = self.context.config.backlog.iter().map(|backlog| backlog.path.clone());
        let all = evidence.into_iter().chain(prompts).chain(backlog);
        let workspace = &self.context.workspace;
        let inside = all.filter_map(|path| Some(path.strip_prefix(workspace).ok()?.to_owned()));
        CheckoutSource {
            workspace: workspace.clone(),
            git: common_git_folder(workspace),
            shown: inside.chain([PathBuf::from(OWN)]).collect(),
        }
    }
}
