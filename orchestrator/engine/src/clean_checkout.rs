//! The checkout in which the checks of a run are run: recorded when it begins, opened again when it is resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_checkout::{
    Checkout, CheckoutError, CheckoutSource, ContentDigests, KeptRecord, StartRecord,
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
/// Copies of what counted are waited for no longer than this before an agent starts: it takes longer than they do until it
/// changes something, and what it changed before is only not known.
const COPIES_WAIT: Duration = Duration::from_millis(100);

/// What is stored of what is kept of the start.
#[derive(Default, Serialize, Deserialize)]
struct StoredKept {
    #[serde(flatten)]
    record: KeptRecord,
    /// What the setup was run with before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_up: Option<String>,
    /// The inputs for which all that it makes was there when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    installed: Option<String>,
}

/// What is stored of what files held when the run began.
#[derive(Serialize, Deserialize)]
struct StoredContents {
    files: ContentDigests,
}

impl Session {
    /// Records the workspace as a new run finds it, for checks that are to be run in a checkout of it. Without a word on
    /// where, they are run in the workspace if there can be none.
    pub(super) async fn begin_checkout(&mut self) -> Result<(), EngineError> {
        let place = self.context.policy.checkout.place;
        if place == Some(CheckPlace::Workspace) || !self.context.policy.needs_checkout() {
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
        self.try_layers(folder, &source.workspace).await?;
        let begun = blocking(move || Checkout::begin(source, &storage)).await??;
        let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
        store_object(store, redactor, Layout::CHECKOUT, begun.start())?;
        let mut known = RunCheckout::new(begun, None, self.find_installed());
        let begun = Arc::clone(&known.checkout);
        known.read_contents(self.counted_at_start());
        self.checkout = Some(known);
        let (is_work, context) = (self.counted_at_start(), Arc::clone(&self.context));
        let has_secret = move |bytes: &[u8]| context.redactor.has_secret(bytes);
        self.start_copies = Some(spawn_blocking(move || begun.keep_start(&is_work, &has_secret)));
        self.store_kept()
    }

    /// Returns what tells whether a path counted as work when the run began.
    fn counted_at_start(&self) -> impl Fn(&Path) -> bool + Send + use<> {
        let pinned = Arc::clone(&self.observer.pinned);
        move |path| pinned.contains(path)
    }

    /// Stores what the layers hold that are kept, if it is something else: the next start believes nothing else. The same for
    /// what files held.
    pub(super) fn store_kept(&mut self) -> Result<(), EngineError> {
        let Some(known) = &self.checkout else { return Ok(()) };
        if let Some(files) = known.take_contents() {
            let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
            let contents = StoredContents { files };
            store_object(store, redactor, Layout::CHECKOUT_CONTENTS, &contents)?;
        }
        let Some(record) = known.checkout.take_kept() else { return Ok(()) };
        let installed = known.installed.clone();
        let kept = StoredKept { record, set_up: known.set_up(), installed };
        let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
        store_object(store, redactor, Layout::CHECKOUT_KEPT, &kept)
    }

    /// Waits for the copies of what counted when the run began. They are made beside the checks before any work.
    pub(super) async fn finish_start_copies(&mut self, next: &Effect) -> Result<(), EngineError> {
        let is_read_only = matches!(next, Effect::Observe | Effect::CheckBaseline);
        if is_read_only && self.setup_before(next).is_none() {
            return Ok(());
        }
        let Some(copies) = self.start_copies.take() else { return Ok(()) };
        match tokio::time::timeout(COPIES_WAIT, copies).await {
            Ok(done) => Ok(done.map_err(|error| EngineError::Internal(error.to_string()))??),
            Err(_) => Ok(()),
        }
    }

    /// Opens what was recorded when the run began. Where the first checks are still to be run, no agent has worked, and a person may
    /// have changed what they will see: it is recorded again.
    pub(super) async fn resume_checkout(&mut self) -> Result<(), EngineError> {
        let state = &self.journal.state;
        if !state.started.as_ref().is_some_and(|started| started.checkout) {
            return Ok(());
        }
        if state.is_baseline_due() && !self.context.attached {
            return self.record_checkout().await;
        }
        let store = &self.journal.store;
        let Some(start) = read_object::<StartRecord>(store, Layout::CHECKOUT)? else {
            let path = self.checkout_storage().with_file_name(Layout::CHECKOUT);
            return Err(CheckoutError::Damaged { path }.into());
        };
        let kept = read_object::<StoredKept>(store, Layout::CHECKOUT_KEPT)?.unwrap_or_default();
        let (source, storage) = (self.checkout_source(), self.checkout_storage());
        let checkout = Checkout::open(source, &storage, start, kept.record);
        let mut known = RunCheckout::new(checkout, kept.set_up, kept.installed);
        match read_object::<StoredContents>(store, Layout::CHECKOUT_CONTENTS)? {
            Some(contents) => known.checkout.set_contents(contents.files),
            None => known.read_contents(self.counted_at_start()),
        }
        self.checkout = Some(known);
        Ok(())
    }

    /// Deletes the layers of a run that is complete: nothing is checked in them any more.
    pub(super) async fn discard_checkout(&mut self) {
        let Some(known) = self.checkout.take() else { return };
        // What is left takes up space and nothing else.
        drop(blocking(move || known.checkout.discard()).await);
    }

    fn checkout_storage(&self) -> PathBuf {
        self.journal.store.layout().checkout(&self.context.run)
    }

    /// Returns what the checkout is of. What is no part of the work, and not ignored either, checks see as it is.
    fn checkout_source(&self) -> CheckoutSource {
        let workspace = &self.context.workspace;
        let inside = |path: PathBuf| Some(path.strip_prefix(workspace).ok()?.to_owned());
        let evidence = self.context.policy.evidence_dirs().into_iter().filter_map(inside);
        let made: Vec<PathBuf> =
            evidence.chain(self.context.policy.checkout.link.iter().cloned()).collect();
        let prompts = self.prompts.source.files().map(Path::to_owned);
        let backlog = self.context.config.backlog.iter().filter_map(|backlog| backlog.path.clone());
        let read = prompts.chain(backlog).filter_map(inside).chain([PathBuf::from(OWN)]);
        // An agent can make a repository of its own in the workspace.
        let top = self.observer.pinned.repository_top(workspace);
        CheckoutSource {
            workspace: workspace.clone(),
            git: common_git_folder(top.as_ref().unwrap_or(workspace)),
            shown: read.chain(made.iter().cloned()).collect(),
            made,
            hidden: Vec::new(),
        }
    }
}
