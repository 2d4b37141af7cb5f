//! The checkout in which the checks of a run are run: recorded when it begins, opened again when it is resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_checkout::{
    Checkout, CheckoutError, CheckoutSource, Inventory, StartRecord,
};
use ralph_orchestrator_config::CheckPlace;
use ralph_orchestrator_machine::Effect;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_workspace::common_git_folder;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::blocking::blocking;
use super::error::EngineError;
use super::run_checkout::RunCheckout;
use super::session::Session;
use super::stored_object::{read_object, store_object};

/// What agents are given by the orchestrator, in the workspace.
const OWN: &str = ".ralph";
/// What is stored of what every checkout has of the first checks.
#[derive(Default, Serialize, Deserialize)]
struct StoredKept {
    layers: Inventory,
    /// What the setup was run with before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_up: Option<String>,
    /// The inputs for which all that it makes was there when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    installed: Option<String>,
}

impl Session {
    /// Records the workspace as a new run finds it, for checks that are to be run in a checkout of it. Without a word on
    /// where, they are run in the workspace if there can be none.
    pub(super) async fn begin_checkout(&mut self) -> Result<(), EngineError> {
        let place = self.context.policy.checkout.place;
        if place == Some(CheckPlace::Workspace) || !self.context.policy.runs_checks() {
            return Ok(());
        }
        match self.record_checkout().await {
            Err(EngineError::Checkout(error)) if place.is_none() => {
                self.start.notes.push(format!("the checks run in the workspace: {error}"));
                Ok(())
            }
            recorded => recorded,
        }
    }

    async fn record_checkout(&mut self) -> Result<(), EngineError> {
        let (source, storage) = (self.checkout_source(), self.checkout_storage());
        let folder = storage.parent().unwrap_or(&storage);
        let tried = self.context.processes.check_layers(folder, &source.workspace).await;
        tried.map_err(|reason| CheckoutError::Unavailable { reason })?;
        let begun = blocking(move || Checkout::begin(source, &storage)).await??;
        let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
        store_object(store, redactor, Layout::CHECKOUT, begun.start())?;
        let known = RunCheckout::new(begun, None, self.find_installed());
        let begun = Arc::clone(&known.checkout);
        self.checkout = Some(known);
        if self.is_explained() {
            let (pinned, context) = (Arc::clone(&self.observer.pinned), Arc::clone(&self.context));
            let has_secret = move |bytes: &[u8]| context.redactor.bytes(bytes) != bytes;
            let keep = move || begun.keep_start(&|path| pinned.contains(path), &has_secret);
            self.start_copies = Some(spawn_blocking(keep));
        }
        self.store_kept()
    }

    /// Stores what the layers hold that are kept, if it is something else: the next start believes nothing else.
    pub(super) fn store_kept(&mut self) -> Result<(), EngineError> {
        let Some(known) = &self.checkout else { return Ok(()) };
        let Some(layers) = known.checkout.take_kept() else { return Ok(()) };
        let installed = known.installed.clone();
        let kept = StoredKept { layers, set_up: known.set_up(), installed };
        let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
        store_object(store, redactor, Layout::CHECKOUT_KEPT, &kept)
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
    pub(super) fn resume_checkout(&mut self) -> Result<(), EngineError> {
        if !self.journal.state.started.as_ref().is_some_and(|started| started.checkout) {
            return Ok(());
        }
        let store = &self.journal.store;
        let Some(start) = read_object::<StartRecord>(store, Layout::CHECKOUT)? else {
            let path = self.checkout_storage().with_file_name(Layout::CHECKOUT);
            return Err(CheckoutError::Damaged { path }.into());
        };
        let kept = read_object::<StoredKept>(store, Layout::CHECKOUT_KEPT)?.unwrap_or_default();
        let (source, storage) = (self.checkout_source(), self.checkout_storage());
        let checkout = Checkout::open(source, &storage, start, kept.layers);
        self.checkout = Some(RunCheckout::new(checkout, kept.set_up, kept.installed));
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
        let link = self.context.policy.checkout.link.iter().cloned();
        let workspace = &self.context.workspace;
        let inside = all.filter_map(|path| Some(path.strip_prefix(workspace).ok()?.to_owned()));
        CheckoutSource {
            workspace: workspace.clone(),
            git: common_git_folder(workspace),
            shown: inside.chain(link).chain([PathBuf::from(OWN)]).collect(),
        }
    }
}
