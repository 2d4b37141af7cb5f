//! The first run of a backlog that is still to be made: that of the initializer.

use std::collections::BTreeMap;
use std::sync::Arc;

use ralph_orchestrator_backlog::{Backlog, ItemStatus};
use ralph_orchestrator_engine::RunPart;
use ralph_orchestrator_machine::RunUsage;
use ralph_orchestrator_machine::StopReason;

use crate::budget::remaining;
use crate::driver::{BacklogDriver, BacklogEnd, DriverSetup};
use crate::error::DriverError;
use crate::executor::{Executor, RunOrder, RunReport, Submission};
use crate::item_text::append_instructions;
use crate::record::SeriesRecord;
use crate::stop::Stop;

/// Most problems of a backlog that the initializer is given.
const MOST_PROBLEMS: usize = 20;

impl<E: Executor> BacklogDriver<E> {
    /// Has the initializer make the backlog, if that is still to be made. Returns the end if that is not
    /// there afterwards.
    pub(crate) async fn initialize(&mut self) -> Result<Option<BacklogEnd>, E::Error> {
        let (is_due, resume) = self.initializer_due();
        if !is_due {
            return Ok(None);
        }
        if self.executor.is_stopping() {
            let text = "stop requested before the initializer";
            return Ok(Some(self.stop(Stop::new(StopReason::Interrupted, text))?));
        }
        if let Some(stop) = self.find_used_up(resume.as_deref())? {
            return Ok(Some(self.stop(stop)?));
        }
        let used = self.used_beside(resume.as_deref());
        let order = self.initializer_order(resume, used);
        let run = match self.executor.submit(order).await? {
            Submission::Withheld(status) => return Ok(Some(BacklogEnd::Withheld(status))),
            Submission::Complete(report) => return Ok(self.end_initializer(&report)?),
            Submission::Opened { run, .. } => run,
        };
        self.begin_initializer(&run)?;
        let report = self.executor.watch(&run, Arc::clone(&self.run_observer)).await?;
        Ok(self.end_initializer(&report)?)
    }

    /// Returns whether the initializer works first, and which of its runs is resumed.
    fn initializer_due(&self) -> (bool, Option<String>) {
        let ledger = self.work.state().ledger.clone();
        if let Some(entry) = ledger.initializing().filter(|_| !self.begins) {
            return (true, Some(entry.run.clone()));
        }
        // A backlog that was there and is gone is nothing that the initializer has left to do.
        let is_beginning = self.begins || ledger.runs.is_empty();
        let DriverSetup { has_initializer, backlog, .. } = &self.setup;
        (is_beginning && *has_initializer && backlog.is_unwritten(), None)
    }

    fn initializer_order(&mut self, resume: Option<String>, used: RunUsage) -> RunOrder {
        let (of_text, of_products) =
            (Arc::clone(&self.setup.backlog), Arc::clone(&self.setup.backlog));
        let text = Arc::new(move |prompt: &str| initializer_text(&*of_text, prompt));
        let products = Arc::new(move || missing_backlog(&*of_products));
        RunOrder {
            limits: remaining(&self.setup.limits, used),
            item: None,
            lane: None,
            part: RunPart {
                run: resume,
                item: None,
                is_lane: false,
                is_sent_back: false,
                is_first: std::mem::take(&mut self.is_first),
                trusted_git: None,
                text,
                description: Arc::new(|_: &str| String::new()),
                env: BTreeMap::new(),
                products: Some(products),
                providers: self.providers.clone(),
                guard: None,
            },
            item_claim: Arc::new(|| None),
            once: self.setup.once,
            restart: std::mem::take(&mut self.setup.restart),
        }
    }

    /// Records the run of the initializer before its agent starts.
    fn begin_initializer(&mut self, run: &str) -> Result<(), DriverError> {
        self.open_series()?;
        self.begin_series()?;
        let mut state = self.work.state();
        if state.ledger.initializing().is_none_or(|entry| entry.run != run) {
            state.append(&SeriesRecord::InitializerStarted { run: run.to_owned() })?;
        }
        Ok(())
    }

    /// Records how the run of the initializer ended. Returns the end, unless the backlog is there.
    fn end_initializer(&mut self, report: &RunReport) -> Result<Option<BacklogEnd>, DriverError> {
        self.work.state().append(&SeriesRecord::InitializerStopped {
            run: report.run.clone(),
            reason: report.reason,
            message: report.message.clone(),
            usage: RunUsage::from_state(&report.state),
        })?;
        let is_done = report.reason == StopReason::Initialized;
        let mut stop = if is_done && self.setup.once {
            Stop::new(StopReason::Once, "the initializer has made the backlog (`--once`)")
        } else if is_done {
            return Ok(None);
        } else {
            Stop::new(report.reason, format!("initializer: {}", report.message))
        };
        stop.ended_well = report.ended_well();
        stop.state = Some(Box::new(report.state.clone())).filter(|_| !is_done);
        self.stop(stop).map(Some)
    }
}

/// Returns what the initializer's agent is given after a prompt that does not name the backlog itself.
fn initializer_text(backlog: &dyn Backlog, prompt: &str) -> String {
    let path = backlog.path().display().to_string();
    if prompt.contains(&path) {
        return String::new();
    }
    let mut text = format!(
        "# The list of work\n\nWrite the list of items to {path}. Each is pending, small enough for one session, and \
         says when it is complete. The file is checked when you stop; it has this form:\n\n```\n{}```\n",
        backlog.example()
    );
    append_instructions(&mut text, backlog.instructions());
    text
}

/// Returns what keeps the backlog from being worked on, for the initializer's agent.
fn missing_backlog(backlog: &dyn Backlog) -> Vec<String> {
    let path = backlog.path().display();
    let snapshot = match backlog.load() {
        Ok(snapshot) => snapshot,
        Err(error) => return bounded(error.to_string().lines().map(str::to_owned).collect()),
    };
    if snapshot.items.is_empty() {
        return vec![format!("{path}: the backlog has no items; write at least one")];
    }
    // Only the latch of its run completes an item.
    let begun = snapshot
        .items
        .iter()
        .filter(|item| matches!(item.status, ItemStatus::Completed | ItemStatus::InProgress));
    let begun = begun.map(|item| {
        format!(
            "{path}: item `{}` is {}; nobody has worked on it: make it pending",
            item.id, item.status
        )
    });
    bounded(begun.collect())
}

fn bounded(mut problems: Vec<String>) -> Vec<String> {
    let more = problems.len().saturating_sub(MOST_PROBLEMS);
    problems.truncate(MOST_PROBLEMS);
    problems.extend((more > 0).then(|| format!("and {more} more")));
    problems
}
