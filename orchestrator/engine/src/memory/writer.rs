//! Writes entries, each of them once.

use std::path::Path;

use ralph_orchestrator_machine::State;
use ralph_orchestrator_memory::{
    Action, EntryFormat, ErrorEntry, MarkdownEntry, SessionEntry, has_heading,
};
use ralph_orchestrator_safe_fs as safe_fs;
use ralph_orchestrator_store::StateError;

use super::kept_file::{Found, KeptCopy, KeptFile, find};
use super::summaries::{completion_text, failures, handoff_notes, headline, summarize};
use super::{EntryEffect, MemorySession, PendingEntry, RunMemory};

/// The mark of an entry about a failure.
const FAILURES: &str = "failures";
/// The mark of the entry that a Markdown file has for an iteration.
const ITERATION: &str = "iteration";

impl RunMemory {
    pub(super) fn write_started(&mut self, open: &MemorySession) -> Result<(), StateError> {
        let what = match &open.item {
            Some(item) => format!("Starting iteration {} on {item}", open.iteration),
            None => format!("Starting iteration {}", open.iteration),
        };
        self.write_session(open, Action::SessionStarted, &what, open.started_s)
    }

    /// Writes what the iteration did.
    pub(super) fn write_end(
        &mut self,
        open: &MemorySession,
        state: &State,
        now_s: i64,
    ) -> Result<(), StateError> {
        match self.progress.as_ref().map(|progress| progress.format) {
            None => Ok(()),
            Some(EntryFormat::Sessions) => {
                if let Some(notes) = handoff_notes(state) {
                    self.write_session(open, Action::Handoff, &notes.render(), now_s)?;
                }
                let body = summarize(state).render();
                self.write_session(open, Action::SessionEnded, &body, now_s)
            }
            Some(EntryFormat::Markdown) => {
                if self.has_agent_entry()? {
                    return Ok(());
                }
                let (headline, lines) = headline(state);
                let (iteration, headline) = (open.iteration, headline.as_str());
                let text = MarkdownEntry { iteration, headline, lines: &lines }.render();
                self.write(false, &text, ITERATION)
            }
        }
    }

    /// Whether the agent wrote an entry of its own in this iteration.
    fn has_agent_entry(&self) -> Result<bool, StateError> {
        let Some(progress) = &self.progress else { return Ok(false) };
        if let Some(hidden) = &self.hidden {
            let Found::Content(content) = find(hidden) else { return Ok(false) };
            return Ok(has_heading(progress.format, &content));
        }
        let (content, before) = (progress.content()?, progress.kept(KeptCopy::Session)?);
        Ok(content
            .strip_prefix(before.as_slice())
            .is_some_and(|added| has_heading(progress.format, added)))
    }

    pub(super) fn write_failures(
        &mut self,
        open: &MemorySession,
        state: &State,
        now_s: i64,
    ) -> Result<(), StateError> {
        if self.errors.is_none() {
            return Ok(());
        }
        let mut text = String::new();
        for failure in failures(state) {
            let output = failure.output.unwrap_or_else(|| self.error_output(open));
            let (iteration, session, what) = (open.iteration, &open.id, &failure.what);
            let entry = ErrorEntry { unix_s: now_s, iteration, session, what, output: &output };
            text.push_str(&entry.render());
        }
        if text.is_empty() { Ok(()) } else { self.write(true, &text, FAILURES) }
    }

    /// Returns what the agent of a session printed as errors, as it was stored.
    fn error_output(&self, open: &MemorySession) -> String {
        let output = self.files.read_error_output(&open.run, open.iteration);
        String::from_utf8_lossy(&output).into_owned()
    }

    pub(super) fn write_completed(
        &mut self,
        run: &str,
        state: &State,
        now_s: i64,
    ) -> Result<(), StateError> {
        let is_written = self.state.completed.as_deref() == Some(run);
        let last = self.state.last.clone().filter(|last| last.run == run);
        let (Some(last), Some(body)) = (last, completion_text(state)) else { return Ok(()) };
        if is_written || !self.has_sessions() {
            return Ok(());
        }
        let effect = EntryEffect::Complete(run.to_owned());
        let text = last.entry(Action::FeatureCompleted, &body, now_s);
        self.write_pending(false, &text, effect)
    }

    /// Whether the progress file has entries of sessions.
    pub(super) fn has_sessions(&self) -> bool {
        let is_kept = |progress: &KeptFile| progress.format == EntryFormat::Sessions;
        self.progress.as_ref().is_some_and(is_kept)
    }

    fn write_session(
        &mut self,
        session: &MemorySession,
        action: Action,
        body: &str,
        unix_s: i64,
    ) -> Result<(), StateError> {
        if !self.has_sessions() {
            return Ok(());
        }
        self.write(false, &session.entry(action, body, unix_s), action.word())
    }

    /// Writes an entry once: `mark` says which of the open session it is.
    fn write(&mut self, is_failure: bool, text: &str, mark: &str) -> Result<(), StateError> {
        let is_done = |open: &MemorySession| open.done.iter().any(|done| done == mark);
        if self.state.open.as_ref().is_some_and(is_done) {
            return Ok(());
        }
        self.write_pending(is_failure, text, EntryEffect::Mark(mark.to_owned()))
    }

    /// Moves what the agent wrote where a file kept from it would be to that file.
    pub(super) fn move_hidden(&mut self) -> Result<Option<String>, StateError> {
        let Some(hidden) = &self.hidden else { return Ok(None) };
        let path = hidden.display();
        let (text, warning) = match find(hidden) {
            Found::Nothing => return Ok(None),
            Found::Content(content) => {
                let text = String::from_utf8_lossy(&content).into_owned();
                (
                    text,
                    format!(
                        "{path} was moved to the state directory: memory.mode = \"breadcrumbs\""
                    ),
                )
            }
            Found::Other(why) => (String::new(), format!("{path} {why}; it was removed")),
        };
        self.write_pending(false, &text, EntryEffect::Move)?;
        Ok(Some(warning))
    }

    /// Stores an entry before it is written, then writes it.
    fn write_pending(
        &mut self,
        is_failure: bool,
        text: &str,
        effect: EntryEffect,
    ) -> Result<(), StateError> {
        // One that could not be written before comes first.
        self.finish_pending()?;
        let file = if is_failure { &self.errors } else { &self.progress };
        let length = file.as_ref().map_or(Ok(0), |file| file.content().map(|found| found.len()))?;
        let text = self.redactor.text(text).into_owned();
        self.state.pending = Some(PendingEntry { is_failure, text, length, effect });
        self.save()?;
        self.finish_pending()
    }

    /// Writes the entry that is stored, unless it is written already.
    pub(super) fn finish_pending(&mut self) -> Result<(), StateError> {
        let Some(pending) = &self.state.pending else { return Ok(()) };
        let file = if pending.is_failure { &self.errors } else { &self.progress };
        if let Some(file) = file.as_ref().filter(|_| !pending.text.is_empty()) {
            file.append_once(&pending.text, pending.length)?;
        }
        match &pending.effect {
            EntryEffect::Mark(mark) => {
                if let Some(open) = &mut self.state.open {
                    open.done.push(mark.clone());
                }
            }
            EntryEffect::Complete(run) => self.state.completed = Some(run.clone()),
            EntryEffect::Move => {
                self.hidden.as_ref().map_or(Ok(()), |hidden| remove(hidden, &self.workspace))?;
            }
        }
        self.state.pending = None;
        self.save()
    }
}

impl MemorySession {
    fn entry(&self, action: Action, body: &str, unix_s: i64) -> String {
        let item = self.item.as_deref();
        SessionEntry { unix_s, session: &self.id, action, item, body }.render()
    }
}

/// Removes what has this path in the workspace, whatever it is: first it is replaced by a file.
fn remove(path: &Path, workspace: &Path) -> Result<(), StateError> {
    let removed = safe_fs::replace_file(path, b"", workspace)
        .map_err(std::io::Error::from)
        .and_then(|()| std::fs::remove_file(path));
    removed.map_err(StateError::io("remove", path))
}
