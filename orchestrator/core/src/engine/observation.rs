//! An observation of the workspace on another thread: its tree and its evidence, in one task.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::{JoinHandle, spawn_blocking};

use super::error::EngineError;
use super::observe::named;
use super::session::Session;
use crate::machine::{Changes, ObservedEvidence};
use crate::workspace::{EvidenceDigests, EvidenceHasher, TreeError, TreeHasher};

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
    /// The paths that count, relative to the workspace, if they were asked for.
    pub(super) paths: Option<Vec<PathBuf>>,
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

/// The digest of the tree as last observed, as long as nothing was run since that could have changed it.
#[derive(Clone, Default)]
pub(super) struct KnownTree(Arc<Mutex<Option<String>>>);

impl KnownTree {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, tree: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tree;
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
        let dirs = self.policy.evidence_dirs();
        let tree = self.take_hasher();
        let mut evidence = std::mem::take(&mut self.evidence_hasher);
        let cancelled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancelled);
        let wants_paths = self.state.started.is_none();
        let work = move || {
            let mut tree = tree.cancelled_by(Arc::clone(&flag));
            let digest = if wants_paths {
                let both = tree.digest_and_snapshot();
                both.map(|(state, snapshot)| (state, Some(snapshot.paths().collect())))
            } else {
                tree.digest().map(|state| (state, None))
            };
            let found = match digest {
                Ok((state, paths)) => {
                    let found = evidence.digests_until(&dirs, flag);
                    Ok(found.map(|found| Observed {
                        tree: state.digest.into(),
                        work: state.work.map(Into::into),
                        changes: tree.changes().as_ref().map(named),
                        evidence: from_digests(found),
                        paths,
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
        self.known_tree.set(found.as_ref().map(|found| found.tree.clone()));
        Ok(found)
    }
}

pub(super) fn from_digests(found: EvidenceDigests) -> ObservedEvidence {
    let EvidenceDigests { contents, overflowed, skipped_large, .. } = found;
    ObservedEvidence { contents, overflowed, skipped_large }
}
