//! Observing the workspace between iterations.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_contract::Findings;
use ralph_orchestrator_machine::{
    ChangedFile, Changes, FileChange, Input, Observation, ObservedEvidence,
};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, real_path};
use ralph_orchestrator_workspace as tree;
use ralph_orchestrator_workspace::{
    PathChange, TreeChanges, TreeError, TreeHasher, evidence_digests_until, own_outputs,
};

use super::blocking::cancellable;
use super::error::EngineError;
use super::inspect::cut;
use super::observation::{Observed, from_digests};
use super::prompt::PromptSource;
use super::session::Session;
use super::validation_policy::CompletionPolicy;
use super::validator_changes::artefact_paths;

/// Larger than any configuration, in bytes.
const LARGEST_CONFIG: usize = 4 * 1024 * 1024;
/// The longest path of a changed file that is recorded, in bytes.
const LONGEST_PATH: usize = 512;

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
    ) -> Result<Vec<String>, EngineError> {
        let config = &loaded.config;
        let mut hasher = self.tree_hasher(
            &real_path(&config.run.workspace),
            config.run.prompt.clone(),
            &PromptSource::find(config),
        );
        hasher.set_artefacts(artefacts);
        let state = hasher.digest()?;
        Ok([Some(state.digest), state.work].into_iter().flatten().map(Into::into).collect())
    }

    /// Returns what computes the tree of a workspace: without the evidence, the prompt, what only records work, and what
    /// this program prints.
    fn tree_hasher(
        &self,
        workspace: &Path,
        configured_prompt: Option<PathBuf>,
        prompt: &PromptSource,
    ) -> TreeHasher {
        let mut exclude = self.evidence_dirs();
        exclude.extend(configured_prompt);
        exclude.extend(prompt.files().map(Path::to_owned));
        exclude.extend(own_outputs(workspace));
        TreeHasher::new(workspace.to_owned(), exclude).ignoring(Arc::clone(&self.artefacts))
    }
}

impl Session {
    /// Asks the detectors, and records what they find before anything slow begins, so that a claim
    /// survives whatever happens then; the rest is kept until the workspace was observed.
    pub(super) async fn record_claims(
        &mut self,
        final_text: Option<String>,
    ) -> Result<(), EngineError> {
        let made = self.recreate_workspace()?;
        let (prompt, warning) = self.prompt.read(&self.workspace)?;
        let restored = self.guard_memory();
        // A detector that is no part of this program may take its time.
        let enough = self.observation_allowance().expired_or_stopped();
        let findings = tokio::select! {
            biased;
            findings = self.inspection(prompt.text, final_text).run() => findings,
            () = enough => Findings::default(),
        };
        self.near_misses = Some(findings.near_misses);
        // Beside what is recorded until it is needed.
        self.begin_observation();
        let warnings = warning.into_iter().chain(findings.warnings).map(Input::Warning);
        let claims = Input::ClaimsFound(findings.claims);
        for input in made.into_iter().chain(restored).chain(warnings).chain([claims]) {
            self.advance(input)?;
        }
        Ok(())
    }

    /// Observes tree and evidence, and whether the configuration was changed.
    pub(super) async fn observe_workspace(&mut self) -> Result<Vec<Input>, EngineError> {
        if self.near_misses.is_none() {
            self.record_claims(None).await?;
        }
        if !self.state.agent.survivors.is_empty() {
            // They may change the work as long as they live.
            self.cancel_observation().await?;
            self.discard_checkpoint().await;
        }
        if let Some(survived) = self.wait_for_survivors().await? {
            let signal = (*self.stop.borrow() > 0).then_some(Input::Signal);
            return Ok(signal.into_iter().chain([survived]).collect());
        }
        let near_misses = self.near_misses.take().unwrap_or_default();
        let observed = self.finish_observation().await?;
        let mut inputs: Vec<Input> = self.config_change().map(Input::Warning).into_iter().collect();
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        inputs.push(match observed {
            Some(Observed { tree, work, evidence, changes, .. }) => {
                let missing_products = self.missing_products().await?;
                let observed =
                    Observation { near_misses, tree, work, evidence, ..Default::default() };
                Input::Observed(Observation { changes, missing_products, ..observed })
            }
            None => Input::ObservationSkipped,
        });
        Ok(inputs)
    }

    /// Returns the digest of the workspace tree, taken now unless nothing was run since it was taken last;
    /// `None` if a signal or the limit on the run's time interrupted the observation.
    pub(super) async fn tree(&mut self) -> Result<Option<String>, EngineError> {
        if let Some(known) = self.known_tree.get() {
            return Ok(Some(known));
        }
        let hasher = self.take_hasher();
        let enough = self.observation_allowance().expired_or_stopped();
        let (hasher, state) = scan(hasher, enough, TreeHasher::digest).await?;
        self.hasher = Some(hasher);
        Ok(state.map(|state| state.digest.into()))
    }

    /// Takes the hasher, which remembers the contents that it has read; a new one if it was lost.
    pub(super) fn take_hasher(&mut self) -> TreeHasher {
        let mut hasher = self.hasher.take().unwrap_or_else(|| {
            let prompt = self.config.run.prompt.clone();
            let mut hasher = self.policy.tree_hasher(&self.workspace, prompt, &self.prompt);
            hasher.pin(Arc::clone(&self.pinned));
            hasher
        });
        if hasher.artefacts() != self.state.workspace.artefacts.len() {
            hasher.set_artefacts(artefact_paths(&self.state.workspace.artefacts));
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
    pub(super) async fn evidence(&self) -> Result<Option<ObservedEvidence>, EngineError> {
        observe_evidence(
            self.policy.evidence_dirs(),
            self.observation_allowance().expired_or_stopped(),
        )
        .await
    }

    /// Returns a warning, once, if the configuration was changed on disk.
    fn config_change(&mut self) -> Option<String> {
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

/// Names what was changed in the tree.
pub(super) fn named(changes: &TreeChanges) -> Changes {
    changes.iter().map(changed_file).collect()
}

fn changed_file(file: &PathChange) -> ChangedFile {
    let mut path = file.path.to_string_lossy().into_owned();
    cut(&mut path, LONGEST_PATH);
    ChangedFile {
        path,
        change: match file.change {
            tree::FileChangeKind::Added => FileChange::Added,
            tree::FileChangeKind::Modified => FileChange::Modified,
            tree::FileChangeKind::Removed => FileChange::Removed,
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
