//! Posts the progress of a backlog as AutoCoder does, and writes down in the workspace what was posted.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_backlog::{Backlog, ItemStatus};
use ralph_orchestrator_config::Notify;
use ralph_orchestrator_driver::{BacklogEvent, BacklogObserver};
use ralph_orchestrator_notices::{
    BacklogProgress, ProgressCache, Receiver, SupervisedTransport, Target,
};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, replace_file};
use ralph_orchestrator_terminal::output;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, spawn_blocking};

/// The largest file of what was posted that is read, in bytes.
const LARGEST_CACHE: usize = 16 * 1024 * 1024;

/// The channel on which the worker is told that the backlog may have changed.
type Changes = Arc<Mutex<Option<UnboundedSender<()>>>>;

/// Posts while the backlog is worked on.
pub(super) struct ProgressWebhook {
    changes: Changes,
    worker: JoinHandle<()>,
}

impl ProgressWebhook {
    /// Begins to post, within a runtime. What is completed already is written down, if nothing was so far.
    pub(super) async fn start(
        receiver: Receiver,
        transport: SupervisedTransport,
        list: Arc<dyn Backlog>,
        workspace: PathBuf,
    ) -> Self {
        let (changes, changed) = unbounded_channel();
        // The worker is there.
        let _ = changes.send(());
        let worker = Worker { receiver, transport, list, workspace, has_failed: false };
        // Before anything is completed in this start.
        if let Some((progress, true)) = worker.read().await {
            worker.write(&progress.cache()).await;
        }
        let worker = tokio::spawn(worker.serve(changed));
        Self { changes: Arc::new(Mutex::new(Some(changes))), worker }
    }

    /// Returns an observer of a backlog that passes everything on.
    pub(super) fn observe(&self, inner: Arc<dyn BacklogObserver>) -> Arc<dyn BacklogObserver> {
        Arc::new(ProgressObserver { changes: Arc::clone(&self.changes), inner })
    }

    /// Waits for at most `grace` until the last progress is posted.
    pub(super) async fn finish(mut self, grace: Duration) {
        drop(self.changes.lock().unwrap_or_else(PoisonError::into_inner).take());
        if tokio::time::timeout(grace, &mut self.worker).await.is_err() {
            self.worker.abort();
        }
    }
}

struct ProgressObserver {
    changes: Changes,
    inner: Arc<dyn BacklogObserver>,
}

impl BacklogObserver for ProgressObserver {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        self.inner.on_backlog_event(event);
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_progress = matches!(event, BacklogEvent::ItemFinished { .. });
        if let Some(changes) = changes.as_ref().filter(|_| is_progress) {
            // It has ended with the run.
            let _ = changes.send(());
        }
    }
}

struct Worker {
    receiver: Receiver,
    transport: SupervisedTransport,
    list: Arc<dyn Backlog>,
    workspace: PathBuf,
    has_failed: bool,
}

impl Worker {
    async fn serve(mut self, mut changed: UnboundedReceiver<()>) {
        while changed.recv().await.is_some() {
            // Several at once are one.
            while changed.try_recv().is_ok() {}
            let Some((progress, _)) = self.read().await else { continue };
            if progress.is_more() && self.post(&progress).await {
                self.write(&progress.cache()).await;
            }
        }
    }

    /// Reads the backlog, and what was posted last. Says whether nothing was written down before.
    async fn read(&self) -> Option<(BacklogProgress, bool)> {
        let (list, cache) = (Arc::clone(&self.list), self.cache());
        let workspace = self.workspace.clone();
        let read = spawn_blocking(move || {
            let items = match list.is_unwritten() {
                // It is still to be made.
                true => Vec::new(),
                false => list.load().ok()?.items,
            };
            let completed = items.iter().filter(|item| item.status == ItemStatus::Completed);
            let bytes = read_file(&cache, LARGEST_CACHE, SymlinkPolicy::Refuse).ok();
            let before: Option<ProgressCache> =
                bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let is_first = before.is_none();
            let name = workspace.file_name().unwrap_or_default();
            let progress = BacklogProgress {
                project: name.to_string_lossy().into_owned(),
                total: items.len(),
                completed: completed.map(|item| (item.id.clone(), item.title.clone())).collect(),
                before: before.unwrap_or_default(),
                time: Timestamp::now(),
            };
            Some((progress, is_first))
        });
        read.await.ok().flatten()
    }

    /// Posts once; the next progress contains what was not taken. Returns whether it was answered.
    async fn post(&mut self, progress: &BacklogProgress) -> bool {
        let Target::Http { url, token, .. } = &self.receiver.target else { return false };
        let bearer =
            token.iter().map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        let headers = bearer.collect();
        let body = progress.body().to_string();
        let sent = self.transport.post_json(url, headers, body, self.receiver.timeout).await;
        let name = &self.receiver.name;
        match &sent {
            Err(error) if !self.has_failed => {
                let message = &error.message;
                output::info(&format!("notify {name}: {message}; the next progress includes this"));
            }
            Ok(_) if self.has_failed => output::info(&format!("notify {name}: delivered again")),
            _ => {}
        }
        self.has_failed = sent.is_err();
        sent.is_ok()
    }

    /// Writes down what was posted: in one step, and through no link that an agent may have made.
    async fn write(&self, cache: &ProgressCache) {
        let Ok(text) = serde_json::to_vec(cache) else { return };
        let (path, workspace) = (self.cache(), self.workspace.clone());
        let written = spawn_blocking(move || replace_file(&path, &text, &workspace)).await;
        if let Ok(Err(error)) = written {
            let (name, path) = (&self.receiver.name, self.cache());
            let message = format!("notify {name}: cannot write {}: {error}", path.display());
            output::info(&message);
        }
    }

    fn cache(&self) -> PathBuf {
        self.workspace.join(Notify::PROGRESS_CACHE)
    }
}
