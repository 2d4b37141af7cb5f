//! Reports runs that go on at once: each line begins with the item of its run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ralph_orchestrator_driver::{BacklogEvent, BacklogObserver};
use ralph_orchestrator_engine::{RunEvent, RunObserver};
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_text::one_line;

use super::human::HumanReporter;

/// Characters of an item's id in front of lines.
const LONGEST_LABEL: usize = 40;

/// Prints runs that go on at once, for people, and passes on what happens between them.
pub(crate) struct LaneReporter {
    verbose: bool,
    inner: Arc<dyn BacklogObserver>,
    /// By the run.
    reporters: Mutex<BTreeMap<String, Arc<HumanReporter>>>,
}

impl LaneReporter {
    /// Returns a reporter beside that of the backlog.
    pub(crate) fn new(verbose: bool, inner: Arc<dyn BacklogObserver>) -> Self {
        Self { verbose, inner, reporters: Mutex::default() }
    }

    fn find(&self, run: &str) -> Option<Arc<HumanReporter>> {
        self.reporters.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }
}

impl RunObserver for LaneReporter {
    fn on_event(&self, run: &str, event: &RunEvent) {
        if let Some(reporter) = self.find(run) {
            reporter.on_event(run, event);
        }
    }

    fn on_record(&self, run: &str, seq: u64, time: Timestamp, record: &Record) {
        if let Some(reporter) = self.find(run) {
            reporter.on_record(run, seq, time, record);
        }
    }
}

impl BacklogObserver for LaneReporter {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        let mut reporters = self.reporters.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            BacklogEvent::ItemStarted { item, run, .. } => {
                let label = one_line(item, LONGEST_LABEL);
                let reporter = HumanReporter::of_lane(self.verbose, &label);
                reporters.insert(run.clone(), Arc::new(reporter));
            }
            BacklogEvent::ItemFinished { run, .. } => {
                reporters.remove(run);
            }
            BacklogEvent::ItemMerged { .. }
            | BacklogEvent::ItemSentBack { .. }
            | BacklogEvent::BacklogWarning { .. }
            | BacklogEvent::BacklogFinished { .. } => {}
        }
        drop(reporters);
        self.inner.on_backlog_event(event);
    }
}
