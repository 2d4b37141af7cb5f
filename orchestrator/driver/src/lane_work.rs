//! What a run in a lane shares with the driver: the text of its item, and the guard of the lane's own copy of the backlog.
//!
//! That copy decides nothing: statuses are written into the backlog of the run's worktree only, and a merge leaves that as it is.
//! It is guarded all the same, since checks and agents read it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ralph_orchestrator_backlog::{Backlog, BacklogItem, BacklogSnapshot};
use ralph_orchestrator_engine::{GuardedPhase, PhaseGuard, RunEvent, RunObserver};
use ralph_orchestrator_machine::{HookEvent, Note, Record};
use ralph_orchestrator_store::{Disk, Layout, SeriesFiles};

use crate::error::DriverError;
use crate::finding_text::describe;
use crate::item_env::write_item;
use crate::item_text::{describe_item, item_text};
use crate::iteration_guard::{SharedWork, claim_by_status};
use crate::record::SeriesRecord;

/// The work on one item in its lane.
pub(crate) struct LaneWork {
    /// That of the driver.
    series: Arc<SharedWork>,
    /// The lane's copy of the backlog.
    backlog: Arc<dyn Backlog>,
    /// The state of the lane's runs.
    files: (Disk, Layout),
    /// Why the item was sent back, if it was.
    sent_back: Option<String>,
    state: Mutex<LaneState>,
}

struct LaneState {
    /// The item, as it was read last.
    item: BacklogItem,
    /// What was taken back since the last iteration began, for the agent.
    undone: Vec<String>,
    base: Option<(u64, String, BacklogSnapshot)>,
}

impl LaneWork {
    pub(crate) fn new(
        series: Arc<SharedWork>,
        backlog: Arc<dyn Backlog>,
        files: (Disk, Layout),
        (item, sent_back): (BacklogItem, Option<String>),
    ) -> Self {
        let state = LaneState { item, undone: Vec::new(), base: None };
        Self { series, backlog, files, sent_back, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the lane's copy what the driver's backlog says, but for notes: what an agent changed when it was killed.
    pub(crate) fn restore(&self) -> Result<(), DriverError> {
        let snapshot = self.series.backlog.load()?;
        self.backlog.guard(&snapshot, &[], self.series.rules)?;
        Ok(())
    }

    /// Returns what the item's agent is given after the prompt, with the item as it is now.
    pub(crate) fn item_text(&self) -> String {
        let mut state = self.state();
        let now = self.series.backlog.load().ok();
        if let Some(now) = now.and_then(|now| now.find(&state.item.id).cloned()) {
            state.item = now;
        }
        let path = self.backlog.path().display().to_string();
        let instructions = self.backlog.instructions();
        let place = (path.as_str(), self.backlog.place());
        item_text(&state.item, place, &state.undone, self.sent_back.as_deref(), instructions)
    }

    /// Returns what is to be done in the item, for whoever judges its work.
    pub(crate) fn describe_item(&self) -> String {
        describe_item(&self.state().item, self.backlog.place())
    }

    /// Returns what the agent claims of the item by its status in the lane's copy.
    pub(crate) fn item_claim(&self) -> Option<String> {
        let id = self.state().item.id.clone();
        claim_by_status(&*self.backlog, &id)
    }

    /// Returns whether the run is to end: something failed, or a person skipped its item.
    pub(crate) fn is_ending(&self) -> bool {
        let item = self.state().item.id.clone();
        let series = self.series.state();
        series.failure.is_some() || series.ledger.set_aside.contains_key(&item)
    }

    fn begin(&self, run: &str, iteration: u64, phase: GuardedPhase) -> Result<(), DriverError> {
        let mut state = self.state();
        if state.base.is_some() {
            return Ok(());
        }
        if phase == GuardedPhase::Iteration {
            // Its agent has been given that.
            state.undone.clear();
        }
        let (disk, layout) = &self.files;
        if let Some(files) = SeriesFiles::open(disk, layout)? {
            write_item(&files, &state.item)?;
        }
        state.base = Some((iteration, run.to_owned(), self.backlog.load()?));
        Ok(())
    }

    fn end(&self) -> Result<Vec<String>, DriverError> {
        let mut state = self.state();
        let mut messages = Vec::new();
        if let Some((iteration, run, base)) = state.base.take() {
            let report = self.backlog.guard(&base, &[], self.series.rules)?;
            let undone: Vec<String> = report.findings.iter().filter_map(describe).collect();
            messages.extend(undone.iter().map(|undone| format!("backlog: {undone}")));
            state.undone.extend(undone);
            if !report.findings.is_empty() {
                let findings = self.series.redactor.redact(report.findings);
                let item = state.item.id.clone();
                let record = SeriesRecord::IterationGuarded { item, run, iteration, findings };
                self.series.state().append(&record)?;
            }
        }
        drop(state);
        messages.extend(self.series.take_waiting()?);
        Ok(messages)
    }
}

impl PhaseGuard for LaneWork {
    fn begin_phase(&self, run: &str, iteration: u64, phase: GuardedPhase) -> Vec<String> {
        if let Err(error) = self.begin(run, iteration, phase) {
            self.series.fail(error);
        }
        Vec::new()
    }

    fn end_phase(&self) -> Vec<String> {
        self.end().unwrap_or_else(|error| {
            self.series.fail(error);
            Vec::new()
        })
    }
}

/// Forwards the events of a run in a lane, and leaves the notes of hand-offs at its item.
pub(crate) struct LaneObserver {
    pub(crate) work: Arc<LaneWork>,
    pub(crate) inner: Arc<dyn RunObserver>,
}

impl RunObserver for LaneObserver {
    fn on_event(&self, run: &str, event: &RunEvent) {
        self.inner.on_event(run, event);
        let RunEvent::Note { iteration, text } = event else { return };
        let note = Note { iteration: *iteration, text: text.clone() };
        if !note.is_handoff() || self.work.state().base.is_some() {
            return;
        }
        let item = self.work.state().item.id.clone();
        match self.work.series.note_handoff((&item, run), &note) {
            Ok(message) => message.into_iter().for_each(|message| {
                let warning = RunEvent::Warning { iteration: *iteration, message };
                self.inner.on_event(run, &warning);
            }),
            Err(error) => self.work.series.fail(error),
        }
    }

    fn on_record(&self, run: &str, seq: u64, time: Timestamp, record: &Record) {
        if let Record::HookFinished { event: HookEvent::BeforeRun, commands, .. } = record
            && commands.iter().all(|command| command.problem.is_none())
        {
            self.work.series.state().waits_for_start = false;
            self.work.series.ending.notify_one();
        }
        self.inner.on_record(run, seq, time, record);
    }
}
