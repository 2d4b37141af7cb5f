//! An observation of the workspace on another thread: its tree and its evidence, in one task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_machine::{Changes, ObservedEvidence};
use ralph_orchestrator_workspace::{
    EvidenceDigests, EvidenceHasher, TreeError, TreeHasher, TreeSnapshot,
};
use tokio::task::{JoinHandle, spawn_blocking};

use super::error::EngineError;
use super::observe::named;
use super::session::Session;

/// The observed tree and the evidence in it.
#[derive(Clone)]
pub(super) struct Observed {
    /// Digest of the tree.
    pub(super) tree: String,
    /// The same without artefacts, if there are any.
    pub(super) work: Option<String>,
    pub(super) evidence: ObservedEvidence,
    /// What was changed since the last iteration began, for people.
    pub(super) changes: Option<Changes>,
    /// What counts, entry by entry, before there is any record.
    pub(super) snapshot: Option<Arc<TreeSnapshot>>,
}

/// An observation of the workspace.
pub(super) enum WorkspaceObservation {
    /// It is running.
    Running(RunningObservation),
    /// It was made before the first record, and still holds.
    Done(Observed),
}

/// A running observation, which is cancelled when it is dropped.
pub(super) struct RunningObservation {
    work: JoinHandle<Ended>,
    cancelled: Arc<AtomicBool>,
}

impl RunningObservation {
    async fn end(&mut self) -> Result<Ended, EngineError> {
        let ended = (&mut self.work).await;
        ended.map_err(|error| EngineError::Internal(error.to_string()))
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// The hashers that were lent, and what they found.
struct Ended {
    tree: TreeHasher,
    evidence: EvidenceHasher,
    found: Result<Option<Observed>, TreeError>,
}

/// The tree as last observed, as long as nothing was run since that could have changed it.
#[derive(Clone, Default)]
pub(super) struct KnownTree(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    digest: Option<String>,
    /// The same entry by entry, until somebody needs it.
    snapshot: Option<Arc<TreeSnapshot>>,
    encoding: Option<EncodingSnapshot>,
}

/// A snapshot that another thread encodes meanwhile, to be stored.
pub(super) struct EncodingSnapshot {
    snapshot: Arc<TreeSnapshot>,
    json: JoinHandle<String>,
}

impl EncodingSnapshot {
    fn begin(snapshot: Arc<TreeSnapshot>) -> Self {
        let encoded = Arc::clone(&snapshot);
        Self { snapshot, json: spawn_blocking(move || encoded.to_json()) }
    }

    /// Returns the JSON, if it is this very snapshot.
    pub(super) async fn finish(self, snapshot: &Arc<TreeSnapshot>) -> Option<String> {
        if !Arc::ptr_eq(&self.snapshot, snapshot) {
            return None;
        }
        self.json.await.ok()
    }
}

impl KnownTree {
    pub(super) fn get(&self) -> Option<String> {
        self.lock().digest.clone()
    }

    pub(super) fn set(&self, digest: Option<String>) {
        *self.lock() = Known { digest, ..Known::default() };
    }

    fn set_observed(&self, observed: Option<&Observed>) {
        *self.lock() = Known {
            digest: observed.map(|observed| observed.tree.clone()),
            snapshot: observed.and_then(|observed| observed.snapshot.clone()),
            encoding: None,
        };
    }

    /// Returns the tree entry by entry if it was observed so, once.
    pub(super) fn take_snapshot(&self) -> Option<Arc<TreeSnapshot>> {
        self.lock().snapshot.take()
    }

    /// Begins to encode the snapshot, for [`take_encoding`](Self::take_encoding).
    pub(super) fn begin_encoding(&self) {
        let mut known = self.lock();
        known.encoding = known.snapshot.clone().map(EncodingSnapshot::begin);
    }

    pub(super) fn take_encoding(&self) -> Option<EncodingSnapshot> {
        self.lock().encoding.take()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningObservation {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Session {
    /// Begins to observe the workspace. Until [`finish_observation`](Self::finish_observation) is called,
    /// nothing may change the workspace.
    pub(super) fn begin_observation(&mut self) {
        if self.observation.is_some() {
            return;
        }
        self.begin_checkpoint();
        let dirs = self.policy.evidence_dirs();
        let tree = self.take_hasher();
        let mut evidence = std::mem::take(&mut self.evidence_hasher);
        let cancelled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancelled);
        let wants_entries = self.state.started.is_none();
        let work = move || {
            let mut tree = tree.cancelled_by(Arc::clone(&flag));
            let digest = if wants_entries {
                let both = tree.digest_and_snapshot();
                both.map(|(state, snapshot)| (state, Some(Arc::new(snapshot))))
            } else {
                tree.digest().map(|state| (state, None))
            };
            let found = match digest {
                Ok((state, snapshot)) => {
                    let found = evidence.digests_until(&dirs, flag);
                    Ok(found.map(|found| Observed {
                        tree: state.digest.into(),
                        work: state.work.map(Into::into),
                        changes: tree.changes().as_ref().map(named),
                        evidence: from_digests(found),
                        snapshot,
                    }))
                }
                Err(TreeError::Cancelled) => Ok(None),
                Err(error) => Err(error),
            };
            Ended { tree, evidence, found }
        };
        let work = spawn_blocking(work);
        self.observation =
            Some(WorkspaceObservation::Running(RunningObservation { work, cancelled }));
    }

    /// Returns the result of the observation; `None` if a signal or the limit on the run's time interrupted
    /// it, which may be needed: a file can be as large as the agent wants.
    pub(super) async fn finish_observation(&mut self) -> Result<Option<Observed>, EngineError> {
        self.begin_observation();
        let mut running = match self.observation.take() {
            Some(WorkspaceObservation::Running(running)) => running,
            Some(WorkspaceObservation::Done(observed)) => return Ok(Some(observed)),
            None => return Ok(None),
        };
        let enough = self.observation_allowance().expired_or_stopped();
        tokio::select! {
            biased;
            ended = running.end() => return self.restore_hashers(ended?),
            () = enough => {}
        }
        running.cancel();
        let ended = running.end().await?;
        self.restore_hashers(ended)
    }

    /// Cancels the running observation, if there is one.
    pub(super) async fn cancel_observation(&mut self) -> Result<(), EngineError> {
        if let Some(WorkspaceObservation::Running(mut running)) = self.observation.take() {
            running.cancel();
            let ended = running.end().await?;
            drop(self.restore_hashers(ended)?);
        }
        Ok(())
    }

    fn restore_hashers(&mut self, ended: Ended) -> Result<Option<Observed>, EngineError> {
        let Ended { tree, evidence, found } = ended;
        self.hasher = Some(tree);
        self.evidence_hasher = evidence;
        let found = found?;
        self.known_tree.set_observed(found.as_ref());
        Ok(found)
    }
}

pub(super) fn from_digests(found: EvidenceDigests) -> ObservedEvidence {
    let EvidenceDigests { contents, overflowed, skipped_large, .. } = found;
    ObservedEvidence { contents, overflowed, skipped_large }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_known_until_it_is_taken_or_something_is_run() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "content").unwrap();
        let mut hasher = TreeHasher::new(folder.path().to_owned(), Vec::new());
        let (state, snapshot) = hasher.digest_and_snapshot().unwrap();
        let observed = Observed {
            tree: state.digest.into(),
            work: None,
            evidence: ObservedEvidence::default(),
            changes: None,
            snapshot: Some(Arc::new(snapshot.clone())),
        };
        let known = KnownTree::default();
        known.set_observed(Some(&observed));
        assert_eq!(known.get().as_ref(), Some(&observed.tree));
        assert_eq!(known.take_snapshot().as_deref(), Some(&snapshot));
        assert_eq!(known.take_snapshot(), None);
        assert_eq!(known.get().as_ref(), Some(&observed.tree));
        known.set_observed(Some(&observed));
        known.set(None);
        assert_eq!((known.get(), known.take_snapshot()), (None, None));
    }
}
