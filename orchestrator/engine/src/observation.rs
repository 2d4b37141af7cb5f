//! Observes the workspace on another thread: its tree and its evidence, in one task.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_contract::NearMiss;
use ralph_orchestrator_machine::{
    ChangedFile, Changes, FileChange, Input, ObservedEvidence, State,
};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, real_path};
use ralph_orchestrator_store::{Store, lock_workspace};
use ralph_orchestrator_workspace::{
    EvidenceDigests, EvidenceHasher, FileChangeKind, GitEnvironment, PathChange, PinnedPaths,
    TreeChanges, TreeError, TreeHasher, TreeSnapshot, WorkspaceError, WorkspaceHandle,
    evidence_digests_until, own_outputs,
};
use tokio::task::{JoinHandle, spawn_blocking};

use super::blocking::cancellable;
use super::controls::RunControls;
use super::cut::cut;
use super::error::EngineError;
use super::location::folder_pin;
use super::prompt::PromptSource;
use super::run_context::RunContext;
use super::run_journal::RunJournal;
use super::validation_policy::CompletionPolicy;
use super::validator_changes::artefact_paths;

/// Larger than any configuration, in bytes.
const LARGEST_CONFIG: usize = 4 * 1024 * 1024;
/// The longest path of a changed file that is recorded, in bytes.
const LONGEST_PATH: usize = 512;

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

/// The configuration file, watched for changes during the run.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) content: Vec<u8>,
}

/// The workspace of a run as it is seen from outside: the folder itself, and what was observed of it.
pub(super) struct WorkspaceObserver {
    pub(super) context: Arc<RunContext>,
    /// The folder that has to be at that path.
    pub(super) held: WorkspaceHandle,
    /// The lock of the workspace.
    pub(super) occupied: Arc<File>,
    /// The paths that counted in the workspace when the run began, and count to its end.
    pub(super) pinned: Arc<PinnedPaths>,
    /// `None` while an observation runs, or if one was interrupted.
    pub(super) hasher: Option<TreeHasher>,
    pub(super) evidence_hasher: EvidenceHasher,
    /// An observation that was begun, until its result is needed.
    pub(super) observation: Option<WorkspaceObservation>,
    pub(super) known_tree: KnownTree,
    /// Near misses, until the workspace is observed.
    pub(super) near_misses: Option<Vec<NearMiss>>,
    pub(super) config_file: ConfigFile,
}

impl WorkspaceObserver {
    /// Returns one that has observed nothing yet, of a workspace that is held and locked.
    pub(super) fn new(
        context: &Arc<RunContext>,
        (held, occupied): (WorkspaceHandle, Arc<File>),
        config_file: ConfigFile,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            held,
            occupied,
            pinned: Arc::default(),
            hasher: None,
            evidence_hasher: EvidenceHasher::default(),
            observation: None,
            known_tree: KnownTree::default(),
            near_misses: None,
            config_file,
        }
    }
}

/// The work in a workspace outside of any run.
#[derive(Debug)]
pub struct DigestedWork {
    /// Of the tree, and without what validators left.
    pub digests: Vec<String>,
    /// Folders with what git does not ignore and that none of these is about, relative to the workspace.
    pub uncounted_folders: Vec<PathBuf>,
}

impl CompletionPolicy {
    /// Returns the digests of the work in the workspace as it is, outside of any run: of the tree, and without
    /// `artefacts`, which validators left. Blocks.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub fn digest_work(
        &self,
        loaded: &LoadedConfig,
        artefacts: impl IntoIterator<Item = PathBuf>,
    ) -> Result<DigestedWork, EngineError> {
        let config = &loaded.config;
        let mut hasher = self.tree_hasher(
            &real_path(&config.run.workspace),
            config.run.prompt.clone(),
            &PromptSource::find(config),
        );
        hasher.set_artefacts(artefacts);
        let (state, snapshot) = hasher.digest_and_snapshot()?;
        let digests = [Some(state.digest), state.work].into_iter().flatten();
        Ok(DigestedWork {
            digests: digests.map(Into::into).collect(),
            uncounted_folders: snapshot.uncounted_folders().to_vec(),
        })
    }

    /// Returns what computes the tree of a workspace: without the evidence, the prompt, what only records work, and what
    /// this program prints.
    pub(super) fn tree_hasher(
        &self,
        workspace: &Path,
        configured_prompt: Option<PathBuf>,
        prompt: &PromptSource,
    ) -> TreeHasher {
        let mut exclude = self.evidence_dirs();
        exclude.extend(configured_prompt);
        exclude.extend(prompt.files().map(Path::to_owned));
        exclude.extend(own_outputs(workspace));
        TreeHasher::new(workspace.to_owned(), exclude)
            .ignoring(Arc::clone(&self.artefacts))
            .in_environment(GitEnvironment::from_process())
    }
}

impl WorkspaceObserver {
    /// Recreates a deleted workspace as an empty folder; refuses anything else in its place.
    pub(super) fn recreate_workspace(&mut self, store: &Store) -> Result<Vec<Input>, EngineError> {
        match self.held.verify() {
            Ok(()) => Ok(Vec::new()),
            Err(WorkspaceError::Gone { .. }) => {
                self.held = self.held.recreate()?;
                let root = store.layout().root().to_owned();
                let states = root.parent().unwrap_or(&root);
                let occupied = lock_workspace(store.disk(), self.held.folder(), states)?;
                drop(std::mem::replace(&mut self.occupied, occupied));
                let path = self.context.workspace.display();
                Ok(vec![
                    Input::WorkspaceMade(folder_pin(&self.held)),
                    Input::Warning(format!("{path} was deleted; it was made again, empty")),
                ])
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Begins to observe the workspace. Until [`finish_observation`](Self::finish_observation) is called,
    /// nothing may change the workspace.
    pub(super) fn begin_observation(&mut self, state: &State, prompt: &PromptSource) {
        let dirs = self.context.policy.evidence_dirs();
        let tree = self.take_hasher(state, prompt);
        let mut evidence = std::mem::take(&mut self.evidence_hasher);
        let cancelled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancelled);
        let wants_entries = state.started.is_none();
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
                        changes: tree.changes().as_ref().map(list_changes),
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
    pub(super) async fn finish_observation(
        &mut self,
        journal: &RunJournal,
        controls: &RunControls,
    ) -> Result<Option<Observed>, EngineError> {
        let mut running = match self.observation.take() {
            Some(WorkspaceObservation::Running(running)) => running,
            Some(WorkspaceObservation::Done(observed)) => return Ok(Some(observed)),
            None => return Ok(None),
        };
        let enough = controls.observation_allowance(journal).expired_or_stopped();
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

    /// Returns the digest of the workspace tree, taken now unless nothing was run since it was taken last;
    /// `None` if a signal or the limit on the run's time interrupted the observation.
    pub(super) async fn tree(
        &mut self,
        journal: &RunJournal,
        controls: &RunControls,
        prompt: &PromptSource,
    ) -> Result<Option<String>, EngineError> {
        if let Some(known) = self.known_tree.get() {
            return Ok(Some(known));
        }
        let hasher = self.take_hasher(&journal.state, prompt);
        let enough = controls.observation_allowance(journal).expired_or_stopped();
        let (hasher, state) = scan(hasher, enough, TreeHasher::digest).await?;
        self.hasher = Some(hasher);
        Ok(state.map(|state| state.digest.into()))
    }

    /// Takes the hasher, which remembers the contents that it has read; a new one if it was lost.
    pub(super) fn take_hasher(&mut self, state: &State, prompt: &PromptSource) -> TreeHasher {
        let mut hasher = self.hasher.take().unwrap_or_else(|| {
            let configured = self.context.config.run.prompt.clone();
            let mut hasher =
                self.context.policy.tree_hasher(&self.context.workspace, configured, prompt);
            hasher.pin(Arc::clone(&self.pinned));
            hasher
        });
        if hasher.artefacts() != state.workspace.artefacts.len() {
            hasher.set_artefacts(artefact_paths(&state.workspace.artefacts));
        }
        hasher
    }

    /// Attributes changes from now on to the iteration that begins, and none that validators made since the
    /// last scan.
    pub(super) fn mark_tree(&mut self) {
        if let Some(hasher) = &mut self.hasher {
            hasher.mark();
        }
    }

    /// Observes the evidence folders; `None` if that was interrupted.
    pub(super) async fn evidence(
        &self,
        journal: &RunJournal,
        controls: &RunControls,
    ) -> Result<Option<ObservedEvidence>, EngineError> {
        observe_evidence(
            self.context.policy.evidence_dirs(),
            controls.observation_allowance(journal).expired_or_stopped(),
        )
        .await
    }

    /// Returns a warning, once, if the configuration was changed on disk.
    pub(super) fn config_change(&mut self) -> Option<String> {
        let content = read_config(&self.config_file.path);
        if content == self.config_file.content {
            return None;
        }
        let gone = content.is_empty();
        self.config_file.content = content;
        let path = self.config_file.path.display();
        let what = if gone { "is gone" } else { "was changed" };
        Some(format!(
            "{path} {what}; this run goes on with what it was started with (limits and agent are \
             read again by the next `run`, detectors and validators by `run --restart`)"
        ))
    }
}

fn from_digests(found: EvidenceDigests) -> ObservedEvidence {
    let EvidenceDigests { contents, overflowed, skipped_large, .. } = found;
    ObservedEvidence { contents, overflowed, skipped_large }
}

/// Names what was changed in the tree.
fn list_changes(changes: &TreeChanges) -> Changes {
    changes.iter().map(changed_file).collect()
}

fn changed_file(file: &PathChange) -> ChangedFile {
    let mut path = file.path.to_string_lossy().into_owned();
    cut(&mut path, LONGEST_PATH);
    ChangedFile {
        path,
        change: match file.change {
            FileChangeKind::Added => FileChange::Added,
            FileChangeKind::Modified => FileChange::Modified,
            FileChangeKind::Removed => FileChange::Removed,
        },
        lines_added: file.lines.map(|(added, _)| added),
        lines_removed: file.lines.map(|(_, removed)| removed),
    }
}

/// Observes these evidence folders; `None` if it took longer than until `enough`.
pub(super) async fn observe_evidence(
    dirs: Vec<PathBuf>,
    enough: impl Future<Output = ()>,
) -> Result<Option<ObservedEvidence>, EngineError> {
    if dirs.is_empty() {
        return Ok(Some(ObservedEvidence::default()));
    }
    let found = cancellable(enough, move |flag| evidence_digests_until(&dirs, flag)).await?;
    Ok(found.map(from_digests))
}

/// Scans the workspace with the hasher; `None` if it took longer than until `enough`.
pub(super) async fn scan<T: Send + 'static>(
    hasher: TreeHasher,
    enough: impl Future<Output = ()>,
    scan: fn(&mut TreeHasher) -> Result<T, TreeError>,
) -> Result<(TreeHasher, Option<T>), EngineError> {
    let work = move |flag| {
        let mut hasher = hasher.cancelled_by(flag);
        let result = scan(&mut hasher);
        (hasher, result)
    };
    let (hasher, result) = cancellable(enough, work).await?;
    match result {
        Ok(found) => Ok((hasher, Some(found))),
        Err(TreeError::Cancelled) => Ok((hasher, None)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the configuration file as it is now; empty if it cannot be read.
pub(super) fn read_config(path: &Path) -> Vec<u8> {
    read_file(path, LARGEST_CONFIG, SymlinkPolicy::Follow).unwrap_or_default()
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
