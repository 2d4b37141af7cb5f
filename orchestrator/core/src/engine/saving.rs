//! Saves the work of each iteration in git, between iterations only: no agent and no validator runs then.

use std::fs::File;
use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use super::blocking::blocking;
use super::error::EngineError;
use super::session::Session;
use super::version_control::{RepositoryLocation, RunRepository, StoredWork, VersionControl};
use crate::machine::{Input, SaveMode, SaveOrder, SaveResult};
use ralph_orchestrator_config::CommitMode;

/// A result of the repository, or why there is none.
type Stored = Result<StoredWork, String>;

/// What saves the work of a run.
pub(super) struct Saving {
    pub(super) mode: SaveMode,
    version_control: Arc<dyn VersionControl>,
    guard: Arc<File>,
    repository: Option<Arc<dyn RunRepository>>,
    /// A checkpoint that was begun while the workspace is observed, and its iteration.
    checkpoint: Option<(u64, JoinHandle<Stored>)>,
    /// Why the start of the last iteration could not be recorded.
    begin_problem: Option<String>,
}

impl Saving {
    pub(super) fn new(
        mode: CommitMode,
        version_control: Arc<dyn VersionControl>,
        guard: Arc<File>,
    ) -> Self {
        let mode = match mode {
            CommitMode::Off => SaveMode::Off,
            CommitMode::Checkpoint => SaveMode::Checkpoint,
            CommitMode::Iteration => SaveMode::Iteration,
            CommitMode::Handoff => SaveMode::Handoff,
        };
        let (repository, checkpoint, begin_problem) = (None, None, None);
        Self { mode, version_control, guard, repository, checkpoint, begin_problem }
    }

    fn repository(&self) -> Result<Arc<dyn RunRepository>, EngineError> {
        let missing = || EngineError::Internal("saving without a repository".into());
        self.repository.clone().ok_or_else(missing)
    }
}

impl Session {
    /// Opens the repository, if the run is to be saved.
    pub(super) async fn open_repository(&mut self) -> Result<(), EngineError> {
        if self.saving.mode.is_off() {
            return Ok(());
        }
        let location = self.repository_location();
        let version_control = Arc::clone(&self.saving.version_control);
        let opened = blocking(move || version_control.open(location)).await?;
        self.saving.repository = Some(opened.map_err(EngineError::Repository)?);
        Ok(())
    }

    /// Begins a checkpoint of what the last iteration left, beside the observation: both only read.
    pub(super) fn begin_checkpoint(&mut self) {
        let iteration = self.state.iterations;
        let is_begun = self.saving.checkpoint.as_ref().is_some_and(|(of, _)| *of == iteration);
        let is_due = self.state.started.is_none() || self.state.is_save_due();
        let Some(repository) = self.saving.repository.clone().filter(|_| is_due && !is_begun)
        else {
            return;
        };
        let work = spawn_blocking(move || repository.checkpoint(iteration));
        self.saving.checkpoint = Some((iteration, work));
    }

    /// Discards a checkpoint that was begun: the workspace may change while it is made. It is made again.
    pub(super) async fn discard_checkpoint(&mut self) {
        if let Some((_, running)) = self.saving.checkpoint.take() {
            drop(running.await);
        }
    }

    /// Records what is not committed before the agent starts.
    pub(super) async fn begin_saved_iteration(
        &mut self,
        iteration: u64,
    ) -> Result<(), EngineError> {
        if self.saving.mode.commits() {
            let repository = self.saving.repository()?;
            let begun = blocking(move || repository.begin_iteration(iteration)).await?;
            self.saving.begin_problem = begun.err();
        }
        Ok(())
    }

    /// Returns the subjects of the last commits; none if there is no repository.
    pub(super) async fn recent_subjects(&self, most: u32) -> Result<Vec<String>, EngineError> {
        let location = self.repository_location();
        let version_control = Arc::clone(&self.saving.version_control);
        let subjects = blocking(move || version_control.recent_subjects(location, most)).await?;
        Ok(subjects.unwrap_or_default())
    }

    fn repository_location(&self) -> RepositoryLocation {
        RepositoryLocation {
            run: self.run.clone(),
            workspace: self.workspace.clone(),
            folder: self.layout().git(&self.run),
            is_new: !self.resumed,
            guard: Arc::clone(&self.saving.guard),
        }
    }

    /// Saves what the last iteration left.
    pub(super) async fn save(&mut self, order: SaveOrder) -> Result<Vec<Input>, EngineError> {
        let iteration = order.iteration;
        self.begin_checkpoint();
        let mut result = SaveResult::default();
        if let Some((_, running)) = self.saving.checkpoint.take() {
            let stored = running.await.map_err(|error| EngineError::Internal(error.to_string()))?;
            result.checkpoint = result.take("checkpoint", stored);
        }
        if let Some(message) = order.commit {
            let message =
                format!("{message}\nRalph-Run: {}\nRalph-Iteration: {iteration}\n", self.run);
            let repository = self.saving.repository()?;
            let stored = match self.saving.begin_problem.clone() {
                Some(problem) => Err(problem),
                None => blocking(move || repository.commit(iteration, &message)).await?,
            };
            result.skipped.clear();
            result.commit = result.take("commit", stored);
            result.tree_changed = self.has_tree_changed().await?;
        }
        let signal = (*self.stop.borrow() > 0).then_some(Input::Signal);
        Ok(signal.into_iter().chain([Input::Saved(result)]).collect())
    }

    /// Whether the tree is another than observed, as after a hook that formats files.
    async fn has_tree_changed(&mut self) -> Result<bool, EngineError> {
        self.known_tree.set(None);
        let tree = self.tree().await?;
        self.known_tree.set(tree.clone());
        Ok(tree.is_some_and(|tree| tree != self.state.workspace.tree))
    }
}

impl SaveResult {
    /// Notes what was not stored, and returns the id of what was.
    fn take(&mut self, what: &str, stored: Stored) -> Option<String> {
        match stored {
            Ok(stored) => {
                self.skipped.extend(stored.skipped);
                stored.id
            }
            Err(problem) => {
                self.problems.push(format!("no {what}: {problem}"));
                None
            }
        }
    }
}
