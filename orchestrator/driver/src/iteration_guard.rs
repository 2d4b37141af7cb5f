//! Guards the backlog in each phase in which code of an agent runs: what that may not change is taken back afterwards.
//!
//! Between these phases nothing of the agent runs, so what changes then was changed by a person, and stays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ralph_orchestrator_backlog::{Backlog, BacklogItem, BacklogSnapshot, GuardRules, ItemStatus};
use ralph_orchestrator_engine::{GuardedPhase, PhaseGuard, Redactor, RunEvent, RunObserver};
use ralph_orchestrator_machine::{Note, Record};
use ralph_orchestrator_store::{Series, SeriesFiles};
use tokio::sync::Notify;

use crate::additions::take_additions;
use crate::decisions::take_decisions;
use crate::error::DriverError;
use crate::finding_text::describe;
use crate::item_env::write_item;
use crate::item_file::leave_note;
use crate::item_text::{describe_item, item_text};
use crate::iteration_base::{BASE, Iteration, read_base};
use crate::ledger::BacklogLedger;
use crate::record::SeriesRecord;

/// The file with the version that was replaced last.
const REPLACED: &str = "replaced";

/// What driver and guard share.
pub(crate) struct SharedWork {
    pub(crate) backlog: Arc<dyn Backlog>,
    pub(crate) rules: GuardRules,
    pub(crate) redactor: Redactor,
    pub(crate) state: Mutex<WorkState>,
    /// Notified when the run that is performed is to end: see [`is_ending`](Self::is_ending).
    pub(crate) ending: Notify,
}

#[derive(Default)]
pub(crate) struct WorkState {
    /// The record, once the state directory has a key.
    pub(crate) series: Option<(Series, SeriesFiles)>,
    pub(crate) ledger: BacklogLedger,
    pub(crate) failure: Option<DriverError>,
    /// The commands that a start begins with have not allowed it yet, so that only the run that runs them goes on.
    pub(crate) waits_for_start: bool,
    /// The item of the run, as it was read last.
    item: Option<BacklogItem>,
    /// What was taken back since the last iteration began, for the agent.
    undone: Vec<String>,
    base: Option<OpenBase>,
}

/// The version of the backlog before a phase.
struct OpenBase {
    iteration: Iteration,
    snapshot: BacklogSnapshot,
}

impl WorkState {
    /// Records a fact, if there is a state directory to record it in, and applies it.
    pub(crate) fn append(&mut self, record: &SeriesRecord) -> Result<(), DriverError> {
        if let Some((series, _)) = &mut self.series {
            series.append(record)?;
        }
        self.ledger.apply(record);
        Ok(())
    }
}

impl SharedWork {
    pub(crate) fn new(backlog: Arc<dyn Backlog>, rules: GuardRules, redactor: Redactor) -> Self {
        Self { backlog, rules, redactor, state: Mutex::default(), ending: Notify::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the item of the next run.
    pub(crate) fn set_item(&self, item: &BacklogItem) {
        let mut state = self.state();
        state.item = Some(item.clone());
        state.undone.clear();
    }

    /// Returns what the item's agent is given after the prompt, with the item as it is now.
    pub(crate) fn item_text(&self) -> String {
        let mut state = self.state();
        let Some(id) = state.item.as_ref().map(|item| item.id.clone()) else {
            return String::new();
        };
        // A backlog that cannot be read now is restored after the iteration.
        if let Some(now) = self.backlog.load().ok().and_then(|now| now.find(&id).cloned()) {
            state.item = Some(now);
        }
        let path = self.backlog.path().display().to_string();
        let instructions = self.backlog.instructions();
        let place = (path.as_str(), self.backlog.place());
        let text = |item| item_text(item, place, &state.undone, None, instructions);
        state.item.as_ref().map_or_else(String::new, text)
    }

    /// Returns what is to be done in the item, for whoever judges its work.
    pub(crate) fn describe_item(&self) -> String {
        let state = self.state();
        let describe = |item| describe_item(item, self.backlog.place());
        state.item.as_ref().map_or_else(String::new, describe)
    }

    /// Returns what the agent claims of the item by its status.
    pub(crate) fn item_claim(&self) -> Option<String> {
        let id = self.state().item.as_ref()?.id.clone();
        claim_by_status(&*self.backlog, &id)
    }

    /// Keeps the version before a phase.
    fn store_base(
        &self,
        run: &str,
        iteration: u64,
        phase: GuardedPhase,
    ) -> Result<Option<String>, DriverError> {
        let mut state = self.state();
        if state.base.is_some() {
            return Ok(None);
        }
        if phase == GuardedPhase::Iteration {
            // Its agent has been given that.
            state.undone.clear();
        }
        let snapshot = match self.backlog.load() {
            Ok(snapshot) => snapshot,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let item = state.item.as_ref().map(|item| item.id.clone()).unwrap_or_default();
        if let (Some((_, files)), Some(item)) = (&state.series, snapshot.find(&item)) {
            write_item(files, item)?;
        }
        let iteration = Iteration { item, run: run.to_owned(), iteration };
        if let Some((_, files)) = &state.series {
            let mut content = serde_json::to_vec(&iteration).map_err(|source| {
                DriverError::Encoding { what: "the running iteration", source }
            })?;
            content.push(b'\n');
            content.extend_from_slice(&snapshot.bytes);
            files.write_sealed(BASE, &content)?;
        }
        state.base = Some(OpenBase { iteration, snapshot });
        Ok(None)
    }

    /// Takes back what the agent changed and may not, and adds what people want added. Returns sentences
    /// for people.
    pub(crate) fn take_back(&self) -> Result<Vec<String>, DriverError> {
        let mut state = self.state();
        let mut messages = Vec::new();
        if let Some(base) = state.base.take() {
            messages.extend(self.guard(&mut state, &base)?);
        }
        messages.extend(self.add_waiting(&mut state, false)?);
        messages.extend(self.take_decisions(&mut state)?);
        Ok(messages)
    }

    /// Returns whether the run that is performed is to end: something failed, or a person skipped its item.
    pub(crate) fn is_ending(&self) -> bool {
        let state = self.state();
        let is_aside = |item: &BacklogItem| state.ledger.set_aside.contains_key(&item.id);
        state.failure.is_some() || state.item.as_ref().is_some_and(is_aside)
    }

    /// Leaves a note at an item whose iteration was handed off, once. Returns what there is to say to people.
    pub(crate) fn note_handoff(
        &self,
        (item, run): (&str, &str),
        note: &Note,
    ) -> Result<Option<String>, DriverError> {
        let mark = format!("(run {run}, iteration {})", note.iteration);
        leave_note(&*self.backlog, item, &mark, &note.text)
    }

    /// Does the same for the iteration of a run that is being performed: a note between two iterations is
    /// that of the orchestrator.
    fn note_between(&self, run: &str, note: &Note) -> Result<Option<String>, DriverError> {
        let item = {
            let state = self.state();
            state.item.as_ref().filter(|_| state.base.is_none()).map(|item| item.id.clone())
        };
        match item.filter(|_| note.is_handoff()) {
            Some(item) => self.note_handoff((&item, run), note),
            None => Ok(None),
        }
    }

    /// Ends an iteration in which the driver was killed.
    pub(crate) fn recover(&self) -> Result<Vec<String>, DriverError> {
        let mut state = self.state();
        let Some((_, files)) = &state.series else { return Ok(Vec::new()) };
        let mut messages = Vec::new();
        if let Some((iteration, bytes)) = read_base(files)? {
            let snapshot = self.backlog.parse(&bytes)?;
            messages.extend(self.guard(&mut state, &OpenBase { iteration, snapshot })?);
        }
        messages.extend(self.add_waiting(&mut state, true)?);
        messages.extend(self.take_decisions(&mut state)?);
        Ok(messages)
    }

    fn guard(&self, state: &mut WorkState, base: &OpenBase) -> Result<Vec<String>, DriverError> {
        let report = self.backlog.guard(&base.snapshot, &[], self.rules)?;
        if let (Some((_, files)), Some(replaced)) = (&state.series, &report.replaced) {
            files.write(REPLACED, &self.redactor.bytes(replaced))?;
        }
        let undone: Vec<String> = report.findings.iter().filter_map(describe).collect();
        let messages = undone.iter().map(|undone| format!("backlog: {undone}")).collect();
        state.undone.extend(undone);
        if !report.findings.is_empty() {
            let Iteration { item, run, iteration } = base.iteration.clone();
            let findings = self.redactor.redact(report.findings);
            state.append(&SeriesRecord::IterationGuarded { item, run, iteration, findings })?;
        }
        if let Some((_, files)) = &state.series {
            files.remove(BASE)?;
        }
        Ok(messages)
    }

    /// Adds what people want added, and takes what they decide, unless a phase is open in which that would be the agent's. Returns
    /// sentences for people.
    pub(crate) fn take_waiting(&self) -> Result<Vec<String>, DriverError> {
        let mut state = self.state();
        if state.base.is_some() {
            return Ok(Vec::new());
        }
        let mut messages = self.add_waiting(&mut state, false)?;
        messages.extend(self.take_decisions(&mut state)?);
        Ok(messages)
    }

    fn add_waiting(
        &self,
        state: &mut WorkState,
        after_crash: bool,
    ) -> Result<Vec<String>, DriverError> {
        let Some(files) = state.series.as_ref().map(|(_, files)| files.clone()) else {
            return Ok(Vec::new());
        };
        let taken = take_additions(&*self.backlog, &files, &state.ledger, after_crash)?;
        let mut messages = Vec::new();
        for addition in taken {
            state.append(&addition.record)?;
            files.remove(&addition.name)?;
            messages.push(format!("backlog: {}", addition.message));
        }
        Ok(messages)
    }

    fn take_decisions(&self, state: &mut WorkState) -> Result<Vec<String>, DriverError> {
        let Some(files) = state.series.as_ref().map(|(_, files)| files.clone()) else {
            return Ok(Vec::new());
        };
        let mut messages = Vec::new();
        for decision in take_decisions(&*self.backlog, &files)? {
            state.append(&decision.record)?;
            files.remove(&decision.name)?;
            messages.push(format!("backlog: {}", decision.message));
        }
        if !messages.is_empty() {
            self.ending.notify_one();
        }
        Ok(messages)
    }

    pub(crate) fn fail(&self, error: DriverError) {
        self.state().failure.get_or_insert(error);
        self.ending.notify_one();
    }
}

impl PhaseGuard for SharedWork {
    fn begin_phase(&self, run: &str, iteration: u64, phase: GuardedPhase) -> Vec<String> {
        match self.store_base(run, iteration, phase) {
            Ok(warning) => warning.into_iter().collect(),
            Err(error) => {
                self.fail(error);
                Vec::new()
            }
        }
    }

    fn end_phase(&self) -> Vec<String> {
        self.take_back().unwrap_or_else(|error| {
            self.fail(error);
            Vec::new()
        })
    }
}

/// Returns the claim of an item that an agent has set to completed, if it has.
pub(crate) fn claim_by_status(backlog: &dyn Backlog, item: &str) -> Option<String> {
    let is_completed = backlog.load().ok()?.find(item)?.status == ItemStatus::Completed;
    let path = backlog.path().display();
    is_completed.then(|| format!("item `{item}` is set to completed in {path}"))
}

/// Forwards the events of a run, and leaves the notes of hand-offs at its item.
pub(crate) struct NoteObserver {
    pub(crate) work: Arc<SharedWork>,
    pub(crate) inner: Arc<dyn RunObserver>,
}

impl RunObserver for NoteObserver {
    fn on_event(&self, run: &str, event: &RunEvent) {
        self.inner.on_event(run, event);
        if let RunEvent::Note { iteration, text } = event {
            let note = Note { iteration: *iteration, text: text.clone() };
            match self.work.note_between(run, &note) {
                Ok(message) => message.into_iter().for_each(|message| {
                    let warning = RunEvent::Warning { iteration: *iteration, message };
                    self.inner.on_event(run, &warning);
                }),
                Err(error) => self.work.fail(error),
            }
        }
    }

    fn on_record(&self, run: &str, seq: u64, time: Timestamp, record: &Record) {
        self.inner.on_record(run, seq, time, record);
    }
}
