//! When a run writes down what its iterations did, and what it gives the next agent.

use ralph_orchestrator_config::MemoryMode;
use ralph_orchestrator_machine::{Input, StartIteration};
use ralph_orchestrator_memory::{ViewBounds, bounded_view, split_entries, tail_entries};
use ralph_orchestrator_store::StateError;
use ralph_orchestrator_text::plain_line;

use super::super::feedback;
use super::super::run_context::RunContext;
use super::super::run_journal::RunJournal;
use super::{RunMemory, SessionKey, now_s};

const STRUCTURED: &str = "What earlier iterations did, the last one at the end:\n\n";
/// The longest subject of a commit that is given, in characters.
const LONGEST_SUBJECT: usize = 120;
/// Stands for a line that would be a claim if it came from the agent.
const LEFT_OUT: &str = "[a line that shows how to claim completion is left out]";

/// What iterations leave in words, if that is configured.
pub(in super::super) struct MemorySlot(pub(in super::super) Option<RunMemory>);

impl MemorySlot {
    /// Gives the iteration that begins a session of its own.
    pub(in super::super) fn prepare(&mut self, journal: &RunJournal, start: &StartIteration) {
        let (iteration, attempt) = (start.iteration, start.attempt);
        let key = SessionKey { run: &journal.context.run, iteration, attempt };
        let prepared = self.0.as_mut().map_or(Ok(()), |memory| memory.prepare(key, now_s()));
        report(journal, prepared.map(|()| Vec::new()));
    }

    /// Writes that the session begins. No agent runs yet.
    pub(in super::super) fn begin(&mut self, journal: &RunJournal) {
        let begun = self.0.as_mut().map_or(Ok(Vec::new()), RunMemory::begin);
        report(journal, begun);
    }

    /// Puts back what the agent changed of what only grows. No agent runs any more.
    pub(in super::super) fn guard(&self) -> Vec<Input> {
        let restored = self.0.as_ref().map_or(Ok(Vec::new()), RunMemory::guard);
        let warnings = restored.unwrap_or_else(|error| vec![problem(&error)]);
        warnings.into_iter().map(Input::Warning).collect()
    }

    /// Keeps what only grows as it is before code of the agent runs outside of its session.
    pub(in super::super) fn keep(&mut self, journal: &RunJournal) {
        let kept = self.0.as_mut().map_or(Ok(()), RunMemory::keep_for_phase);
        report(journal, kept.map(|()| Vec::new()));
    }

    /// Puts back what that code changed.
    pub(in super::super) fn release(&mut self) -> Vec<Input> {
        let restored = self.0.as_mut().map_or(Ok(Vec::new()), RunMemory::end_phase);
        let warnings = restored.unwrap_or_else(|error| vec![problem(&error)]);
        warnings.into_iter().map(Input::Warning).collect()
    }

    /// Writes what the last iteration did, once it is decided what follows.
    pub(in super::super) fn close(&mut self, journal: &RunJournal) {
        let Some(memory) = self.0.as_mut().filter(|_| journal.state.running.is_none()) else {
            return;
        };
        let closed = memory.close(&journal.context.run, &journal.state, now_s());
        report(journal, closed);
    }

    /// Returns what the agent is given about earlier iterations; empty if that is nothing.
    pub(in super::super) fn block(&self, context: &RunContext, commits: &[String]) -> String {
        let memory = self.0.as_ref().filter(|memory| memory.config.mode.is_given());
        let Some(memory) = memory else { return String::new() };
        let mut text = memory.view();
        if !commits.is_empty() {
            text.push_str("Recent commits, the newest first:\n");
            let subjects: Vec<String> =
                commits.iter().map(|subject| plain_line(subject, LONGEST_SUBJECT)).collect();
            feedback::list(&mut text, subjects.iter().map(String::as_str), subjects.len());
            text.push('\n');
        }
        if context.config.memory.recent_commits > 0 {
            text.push_str(&memory.failures_view());
        }
        let detectors = &context.policy.detectors;
        let forms: Vec<String> = detectors.iter().flat_map(|detector| detector.forms()).collect();
        // Agents write into the files, and commit.
        without_forms(&context.redactor.text(&text), &forms)
    }
}

/// Reports what was put right, or could not be written: nothing of the work depends on it.
fn report(journal: &RunJournal, result: Result<Vec<String>, StateError>) {
    for warning in result.unwrap_or_else(|error| vec![problem(&error)]) {
        journal.warn_unrecorded(&warning);
    }
}

impl RunMemory {
    /// Returns the newest entries, bounded.
    pub(super) fn view(&self) -> String {
        match (self.config.mode, &self.progress) {
            (MemoryMode::Structured, _) => {
                bounded_view(STRUCTURED, &self.state.summaries, self.bounds())
            }
            (MemoryMode::Full, Some(progress)) => {
                let content = progress.content().unwrap_or_default();
                let parts = split_entries(progress.format, &content);
                // What people or agents wrote without a heading is given as one entry.
                let text = parts.preamble.trim_ascii();
                let is_text = !text.is_empty() && text != progress.format.preamble().trim_ascii();
                let entries: Vec<String> = Some(parts.preamble)
                    .filter(|_| is_text)
                    .into_iter()
                    .chain(parts.entries)
                    .map(|entry| String::from_utf8_lossy(entry).into_owned())
                    .collect();
                let heading = format!("The end of {}:\n\n", progress.shown());
                bounded_view(&heading, &entries, self.bounds())
            }
            _ => String::new(),
        }
    }

    /// Returns the end of the file of failures, bounded.
    fn failures_view(&self) -> String {
        let Some(errors) = &self.errors else { return String::new() };
        let content = errors.content().unwrap_or_default();
        let content = String::from_utf8_lossy(&content);
        let ViewBounds { entries, bytes } = self.bounds();
        let tail = tail_entries(&content, entries, bytes).trim_end();
        if tail.is_empty() {
            return String::new();
        }
        format!("The end of {}:\n{tail}\n\n", errors.shown())
    }

    fn bounds(&self) -> ViewBounds {
        ViewBounds {
            entries: usize::try_from(self.config.max_entries).unwrap_or(usize::MAX),
            bytes: usize::try_from(self.config.max_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// Replaces lines that show a form of claim: the agent's own claim would count as an echo of them.
fn without_forms(text: &str, forms: &[String]) -> String {
    let shows = |line: &str| forms.iter().any(|form| !form.is_empty() && line.contains(form));
    let lines = text.split_inclusive('\n');
    lines.map(|line| if shows(line) { format!("{LEFT_OUT}\n") } else { line.to_owned() }).collect()
}

fn problem(error: &StateError) -> String {
    format!("what the iteration did is not written down: {error}")
}
