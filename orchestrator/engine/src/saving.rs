//! Saves the work of each iteration in git, between iterations only: no agent and no validator runs then.

use std::fs::File;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_config::CommitMode;
use ralph_orchestrator_machine::{Input, SaveMode, SaveOrder, SaveResult, State};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until};

use super::allowance::{SAVE_AFTER_STOP, saving_until_ms};
use super::clock::LONGEST_SLEEP_MS;
use super::controls::RunControls;
use super::error::EngineError;
use super::run_journal::RunJournal;
use super::stop::{stop_input, stop_requested};
use super::version_control::{RepositoryLocation, RunRepository, StoredWork, VersionControl};

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
    pub(super) begin_problem: Option<String>,
    /// Ends the processes of git while it is true.
    cancel: watch::Sender<bool>,
}

/// How work of git ended.
pub(super) struct GitEnd<T> {
    pub(super) result: Result<T, String>,
    /// Why its processes were ended, if they were.
    pub(super) interruption: Option<&'static str>,
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
        let cancel = watch::Sender::new(false);
        Self { mode, version_control, guard, repository, checkpoint, begin_problem, cancel }
    }

    pub(super) fn repository(&self) -> Result<Arc<dyn RunRepository>, EngineError> {
        let missing = || EngineError::Internal("saving without a repository".into());
        self.repository.clone().ok_or_else(missing)
    }

    /// Opens the repository, if the run is to be saved.
    pub(super) async fn open_repository(
        &mut self,
        journal: &mut RunJournal,
        controls: &mut RunControls,
    ) -> Result<(), EngineError> {
        if self.mode.is_off() {
            return Ok(());
        }
        let location = self.repository_location(journal);
        let version_control = Arc::clone(&self.version_control);
        let opened =
            self.run_git(journal, controls, move || version_control.open(location)).await?.result;
        self.repository = Some(opened.map_err(EngineError::Repository)?);
        Ok(())
    }

    /// Begins a checkpoint of what the last iteration left, beside the observation: both only read.
    pub(super) fn begin_checkpoint(&mut self, state: &State) {
        let iteration = state.iterations;
        let is_begun = self.checkpoint.as_ref().is_some_and(|(of, _)| *of == iteration);
        let is_due = state.started.is_none() || state.is_save_due();
        let Some(repository) = self.repository.clone().filter(|_| is_due && !is_begun) else {
            return;
        };
        let work = spawn_blocking(move || repository.checkpoint(iteration));
        self.checkpoint = Some((iteration, work));
    }

    /// Discards a checkpoint that was begun: the workspace may change while it is made. It is made again.
    pub(super) async fn discard_checkpoint(&mut self) {
        if let Some((_, running)) = self.checkpoint.take() {
            self.cancel.send_replace(true);
            drop(running.await);
            self.cancel.send_replace(false);
        }
    }

    /// Returns the subjects of the last commits; none if there is no repository.
    pub(super) async fn recent_subjects(
        &mut self,
        journal: &mut RunJournal,
        controls: &mut RunControls,
        most: u32,
    ) -> Result<Vec<String>, EngineError> {
        let location = self.repository_location(journal);
        let version_control = Arc::clone(&self.version_control);
        let subjects = self
            .run_git(journal, controls, move || version_control.recent_subjects(location, most))
            .await?;
        Ok(subjects.result.unwrap_or_default())
    }

    fn repository_location(&self, journal: &RunJournal) -> RepositoryLocation {
        RepositoryLocation {
            run: journal.context.run.clone(),
            workspace: journal.context.workspace.clone(),
            folder: journal.store.layout().git(&journal.context.run),
            is_new: !journal.context.resumed,
            trusted: journal.context.part.as_ref().and_then(|part| part.trusted_git.clone()),
            guard: Arc::clone(&self.guard),
            cancelled: self.cancel.subscribe(),
            protects: journal.context.policy.protects(),
            signing_timeout: journal.context.config.git.timeout,
        }
    }

    /// Saves what the last iteration left. Returns what was saved, or the inputs that end the run for now.
    pub(super) async fn save(
        &mut self,
        journal: &mut RunJournal,
        controls: &mut RunControls,
        order: SaveOrder,
    ) -> Result<Result<SaveResult, Vec<Input>>, EngineError> {
        let iteration = order.iteration;
        self.begin_checkpoint(&journal.state);
        let mut result = SaveResult::default();
        if let Some((_, running)) = self.checkpoint.take() {
            let stored = self.finish_git(journal, controls, running).await?;
            if let Some(problem) = stored.interrupted("checkpoint") {
                return Ok(Err(end_for_now(controls, problem)));
            }
            result.checkpoint = take_stored(&mut result, "checkpoint", stored.result);
            remove_index_with_secrets(journal)?;
        }
        if order.commit.is_none() {
            result.problems.extend(self.begin_problem.take());
        }
        if let Some(message) = order.commit {
            let message = format!(
                "{message}\nRalph-Run: {}\nRalph-Iteration: {iteration}\n",
                journal.context.run
            );
            let repository = self.repository()?;
            let stored = match self.begin_problem.clone() {
                Some(problem) => GitEnd { result: Err(problem), interruption: None },
                None => {
                    self.run_git(journal, controls, move || repository.commit(iteration, &message))
                        .await?
                }
            };
            if let Some(problem) = stored.interrupted("commit") {
                return Ok(Err(end_for_now(controls, problem)));
            }
            result.skipped.clear();
            result.commit_problem = stored.result.as_ref().err().cloned();
            result.commit = take_stored(&mut result, "commit", stored.result);
        }
        Ok(Ok(result))
    }

    pub(super) async fn run_git<T: Send + 'static>(
        &mut self,
        journal: &mut RunJournal,
        controls: &mut RunControls,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<GitEnd<T>, EngineError> {
        self.finish_git(journal, controls, spawn_blocking(work)).await
    }

    /// Waits for work of git, which runs hooks and filters of the user's, and what of the workspace those run.
    /// Ends its processes when the run's time is used up, or a while after it was asked to stop.
    async fn finish_git<T>(
        &mut self,
        journal: &mut RunJournal,
        controls: &mut RunControls,
        work: JoinHandle<Result<T, String>>,
    ) -> Result<GitEnd<T>, EngineError> {
        let mut work = pin!(work);
        let (mut stop, mut inbox) = (controls.stop.clone(), controls.lend_inbox_watch(journal));
        let began_ms = journal.clock.runtime_ms();
        let (mut stop_at, mut interruption, mut failure) = (None, None, None);
        let done = loop {
            let requests = stop.borrow().times;
            if requests > 0 || journal.state.process.stop_requested {
                stop_at.get_or_insert_with(|| Instant::now() + SAVE_AFTER_STOP);
            }
            let left =
                saving_until_ms(journal, began_ms).saturating_sub(journal.clock.runtime_ms());
            let is_stopped = requests > 1 || stop_at.is_some_and(|at| at <= Instant::now());
            if interruption.is_none() && (is_stopped || left == 0 || failure.is_some()) {
                let stopped = stop_at.map(|_| "the run was asked to stop");
                interruption = Some(stopped.unwrap_or("`limits.max_runtime` is used up"));
                self.cancel.send_replace(true);
            }
            let is_waiting = interruption.is_none();
            let pause = if is_waiting { left.min(LONGEST_SLEEP_MS) } else { LONGEST_SLEEP_MS };
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = stop_requested(&mut stop, requests.saturating_add(1)), if is_waiting => {}
                () = sleep_until(stop_at.unwrap_or_else(Instant::now)),
                    if is_waiting && stop_at.is_some() => {}
                () = inbox.changed() => {}
                () = sleep(Duration::from_millis(pause)) => {}
            }
            failure =
                failure.or(controls.take_controls(journal).and_then(|_| journal.tick()).err());
        };
        self.cancel.send_replace(false);
        controls.return_inbox_watch(inbox);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let result = done.map_err(|error| EngineError::Internal(error.to_string()))?;
        // The second request kills all processes, whoever notices it first.
        let killed = (controls.stop.borrow().times > 1).then_some("the run was asked to stop");
        Ok(GitEnd { result, interruption: interruption.or(killed) })
    }
}

/// Removes the index of the checkpoints if a secret is in the name of a file: it is made anew for the next one.
fn remove_index_with_secrets(journal: &RunJournal) -> Result<(), EngineError> {
    if journal.context.redactor.is_empty() {
        return Ok(());
    }
    let index = journal.store.layout().git(&journal.context.run).join("git/index");
    let disk = journal.store.disk();
    let content = disk.read_if_exists(&index, usize::MAX)?.unwrap_or_default();
    if journal.context.redactor.has_secret(&content) {
        disk.remove_private(&index)?;
    }
    Ok(())
}

/// Returns the inputs that end the run for now. What was not saved is due again when it is resumed.
pub(super) fn end_for_now(controls: &RunControls, problem: String) -> Vec<Input> {
    let signal = stop_input(&controls.stop);
    signal.into_iter().chain([Input::Warning(problem), Input::ObservationSkipped]).collect()
}

impl<T> GitEnd<T> {
    /// Returns why there is no checkpoint or commit yet, if its processes were ended before there was one.
    fn interrupted(&self, what: &str) -> Option<String> {
        let (problem, why) = (self.result.as_ref().err()?, self.interruption?);
        Some(format!(
            "no {what}: {problem}, since {why}; the work stays in the workspace, and the next `run` saves it \
             before anything else"
        ))
    }
}

/// Notes in `result` what was not stored, and returns the id of what was.
fn take_stored(result: &mut SaveResult, what: &str, stored: Stored) -> Option<String> {
    match stored {
        Ok(stored) => {
            result.skipped.extend(stored.skipped);
            result.problems.extend(stored.problems);
            stored.id
        }
        Err(problem) => {
            result.problems.push(format!("no {what}: {problem}"));
            None
        }
    }
}
