//! What iterations leave in words: the progress file, the file of failures, and what of it the next agent
//! is given.
//!
//! An entry is first stored in the state directory, then written where it belongs unless it is there, then
//! crossed off: a crash at any point writes it exactly once.

pub(super) mod hooks;
mod kept_file;
mod summaries;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{Memory, MemoryMode, ProgressFormat};
use ralph_orchestrator_machine::{IterationOutcome, State};
use ralph_orchestrator_memory::{EntryFormat, highest_session, session_id};
use ralph_orchestrator_store::{Disk, Layout, MemoryFiles, StateError, read_run};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::redact::Redactor;

use kept_file::{Found, KeptCopy, KeptFile};
use summaries::summarize;

/// What is stored over all runs of a state directory.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct MemoryState {
    /// How many numbers were given to sessions.
    sessions: u64,
    /// The session whose end is not written.
    open: Option<MemorySession>,
    /// The session that was open last.
    last: Option<MemorySession>,
    /// The run whose completion was written.
    completed: Option<String>,
    /// An entry that may not be written yet.
    pending: Option<PendingEntry>,
    /// What the last iterations did, the newest last.
    summaries: Vec<String>,
    /// Copies of the files were made before a phase that is no session.
    is_kept: bool,
}

/// One session of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct MemorySession {
    run: String,
    iteration: u64,
    attempt: u32,
    id: String,
    started_s: i64,
    item: Option<String>,
    /// What is written of it.
    done: Vec<String>,
    /// Copies of the files were made before the agent was started.
    is_guarded: bool,
}

/// An entry that is being written.
#[derive(Debug, Serialize, Deserialize)]
struct PendingEntry {
    is_failure: bool,
    text: String,
    /// The size of the file before, in bytes.
    length: usize,
    effect: EntryEffect,
}

/// What is done, in the same step, once an entry is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryEffect {
    /// The open session is marked with this.
    Mark(String),
    /// The end of this run is written.
    Complete(String),
    /// The file that the agent wrote in the workspace is removed: the entry is its content.
    Move,
}

/// The iteration of a run, and which try of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SessionKey<'a> {
    run: &'a str,
    iteration: u64,
    attempt: u32,
}

/// The memory of a run, if it is configured.
pub(super) struct RunMemory {
    config: Memory,
    /// The id of the item that the run works on.
    item: Option<String>,
    layout: Layout,
    files: MemoryFiles,
    progress: Option<KeptFile>,
    errors: Option<KeptFile>,
    /// The path in the workspace of a progress file that is kept from the agent.
    hidden: Option<PathBuf>,
    workspace: PathBuf,
    redactor: Redactor,
    state: MemoryState,
}

impl RunMemory {
    /// Opens the memory, and changes nothing. `None` if none is configured.
    pub(super) fn open(
        config: &Memory,
        disk: Disk,
        layout: &Layout,
        workspace: &Path,
        redactor: Redactor,
        item: Option<String>,
    ) -> Result<Option<Self>, StateError> {
        if config.mode == MemoryMode::None && config.errors.is_none() {
            return Ok(None);
        }
        let files = MemoryFiles::new(disk, layout.clone());
        let format = match config.format {
            ProgressFormat::Sessions => EntryFormat::Sessions,
            ProgressFormat::Markdown => EntryFormat::Markdown,
        };
        let is_hidden = config.mode == MemoryMode::Breadcrumbs;
        let path = config.progress.as_deref().filter(|_| config.mode != MemoryMode::None);
        let progress = path.map(|path| {
            let make = if is_hidden { KeptFile::in_state } else { KeptFile::in_workspace };
            make(&files, workspace, path, format)
        });
        let hidden = path.filter(|_| is_hidden).map(|path| workspace.join(path));
        let errors = config
            .errors
            .as_deref()
            .map(|path| KeptFile::in_workspace(&files, workspace, path, EntryFormat::Sessions));
        let state = files.read_state()?;
        let (config, workspace) = (config.clone(), workspace.to_owned());
        let layout = layout.clone();
        Ok(Some(Self {
            config,
            item,
            layout,
            files,
            progress,
            errors,
            hidden,
            workspace,
            redactor,
            state,
        }))
    }

    /// Completes what a crash interrupted. Refuses files that cannot be used as they are.
    pub(super) fn recover(mut self) -> Result<Self, EngineError> {
        self.end_phase()?;
        if let Some(problem) = self.problem()? {
            return Err(EngineError::Workspace(problem));
        }
        self.finish()?;
        Ok(self)
    }

    fn finish(&mut self) -> Result<(), StateError> {
        self.finish_pending()?;
        self.progress.as_ref().map_or(Ok(()), KeptFile::finish_rotation)
    }

    /// Returns why the files cannot be used as they are, before an agent has worked on them.
    fn problem(&self) -> Result<Option<String>, StateError> {
        if self.state.open.as_ref().is_some_and(|open| open.is_guarded) {
            // Whatever an agent made of them is put right.
            return Ok(None);
        }
        for (key, file) in [("progress", &self.progress), ("errors", &self.errors)] {
            let Some(file) = file else { continue };
            if let Found::Other(why) = file.find()? {
                return Ok(Some(format!(
                    "memory.{key}: {} {why}; expected a file of its own, or none",
                    file.path().display()
                )));
            }
        }
        Ok(None)
    }

    /// Writes the end of a complete run.
    pub(super) fn settle(&mut self, run: &str, state: &State) -> Result<(), StateError> {
        self.finish()?;
        self.close(run, state, now_s()).map(drop)
    }

    /// Whether the end of a run may not be written yet.
    pub(super) fn is_unsettled(&self, run: &str) -> bool {
        let is_open = |open: &MemorySession| open.run == run;
        let is_last = self.state.last.as_ref().is_some_and(is_open);
        self.state.open.as_ref().is_some_and(is_open)
            || (is_last && self.has_sessions() && self.state.completed.as_deref() != Some(run))
    }

    fn save(&self) -> Result<(), StateError> {
        self.files.write_state(&self.state)
    }

    /// Gives the session that begins an id, once. Closes one of another run that was never closed.
    fn prepare(&mut self, key: SessionKey<'_>, now_s: i64) -> Result<(), StateError> {
        if self.state.open.as_ref().is_some_and(|open| open.key() == key) {
            return Ok(());
        }
        self.close_abandoned(now_s)?;
        let named = match &self.progress {
            Some(progress) => highest_session(&progress.content()?),
            None => 0,
        };
        let number = self.state.sessions.max(named).saturating_add(1);
        self.state.sessions = number;
        self.state.open = Some(MemorySession {
            run: key.run.to_owned(),
            iteration: key.iteration,
            attempt: key.attempt,
            id: session_id(number, now_s),
            started_s: now_s,
            item: self.item.clone(),
            done: Vec::new(),
            is_guarded: false,
        });
        self.save()
    }

    /// Writes the beginning of the open session, and copies the files before the agent has them.
    fn begin(&mut self) -> Result<Vec<String>, StateError> {
        let mut warnings = Vec::new();
        let Some(open) = self.state.open.clone() else { return Ok(warnings) };
        for file in self.kept_files() {
            file.create()?;
        }
        warnings.extend(self.move_hidden()?);
        self.write_started(&open)?;
        for file in self.kept_files() {
            file.keep(KeptCopy::Session)?;
        }
        if let Some(open) = &mut self.state.open {
            open.is_guarded = true;
        }
        self.save()?;
        Ok(warnings)
    }

    /// Copies the files before code of the agent runs outside of its session.
    fn keep_for_phase(&mut self) -> Result<(), StateError> {
        if self.kept_files().next().is_none() {
            return Ok(());
        }
        for file in self.kept_files() {
            file.keep(KeptCopy::Phase)?;
        }
        self.state.is_kept = true;
        self.save()
    }

    /// Puts back what that code changed of the files. Returns what there is to say about that.
    fn end_phase(&mut self) -> Result<Vec<String>, StateError> {
        if !self.state.is_kept {
            return Ok(Vec::new());
        }
        let restored = self.restore(KeptCopy::Phase)?;
        self.state.is_kept = false;
        self.save()?;
        Ok(restored)
    }

    /// Puts back what the agent changed of the files in its session. Returns what there is to say about that.
    fn guard(&self) -> Result<Vec<String>, StateError> {
        match &self.state.open {
            Some(open) if open.is_guarded => self.restore(KeptCopy::Session),
            _ => Ok(Vec::new()),
        }
    }

    fn restore(&self, copy: KeptCopy) -> Result<Vec<String>, StateError> {
        let restored = self.kept_files().map(|file| file.restore(copy));
        restored.filter_map(Result::transpose).collect()
    }

    /// Writes the end of the open session, if it is this one, and of the run if it is complete.
    fn close(&mut self, run: &str, state: &State, now_s: i64) -> Result<Vec<String>, StateError> {
        let key = SessionKey { run, iteration: state.iterations, attempt: state.attempt };
        let mut warnings = Vec::new();
        if let Some(open) = self.state.open.clone().filter(|open| open.key() == key) {
            warnings.extend(self.guard()?);
            self.write_started(&open)?;
            self.write_end(&open, state, now_s)?;
            self.write_failures(&open, state, now_s)?;
            warnings.extend(self.move_hidden()?);
            self.state.summaries.push(format!(
                "## Session {} (iteration {}{})\n\n{}",
                open.id,
                open.iteration,
                open.item.as_ref().map(|item| format!(", item {item}")).unwrap_or_default(),
                self.redactor.text(&summarize(state).render())
            ));
            let most = usize::try_from(self.config.max_entries).unwrap_or(usize::MAX);
            let excess = self.state.summaries.len().saturating_sub(most);
            self.state.summaries.drain(..excess);
            self.state.last = self.state.open.take();
            self.save()?;
            self.rotate()?;
        }
        self.write_completed(run, state, now_s)?;
        Ok(warnings)
    }

    fn rotate(&self) -> Result<(), StateError> {
        let rotate = |file: &KeptFile| file.rotate(self.config.rotate_above);
        self.progress.as_ref().map_or(Ok(()), rotate)
    }

    /// Writes the end of a session whose run was never continued.
    fn close_abandoned(&mut self, now_s: i64) -> Result<(), StateError> {
        let Some(open) = self.state.open.clone() else { return Ok(()) };
        let read = read_run(&self.layout, &open.run, |_| ());
        let mut state = read.map(|read| read.found.state).unwrap_or_default();
        let is_known = state.iterations == open.iteration && state.attempt == open.attempt;
        if !is_known {
            let (iterations, attempt) = (open.iteration, open.attempt);
            state = State { iterations, attempt, ..State::default() };
        }
        if !is_known || state.running.is_some() {
            state.last_outcome = Some(IterationOutcome::Interrupted);
        }
        // One that was killed before its iteration was recorded has done nothing.
        if is_known || open.is_guarded {
            self.close(&open.run, &state, now_s)?;
        }
        self.state.open = None;
        self.save()
    }

    fn kept_files(&self) -> impl Iterator<Item = &KeptFile> {
        self.progress.iter().chain(&self.errors)
    }
}

impl MemorySession {
    fn key(&self) -> SessionKey<'_> {
        SessionKey { run: &self.run, iteration: self.iteration, attempt: self.attempt }
    }
}

fn now_s() -> i64 {
    i64::try_from(super::clock::unix_ms() / 1000).unwrap_or(i64::MAX)
}
