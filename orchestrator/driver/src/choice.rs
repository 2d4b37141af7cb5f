//! What a driver does next.

use ralph_orchestrator_backlog::{
    BacklogItem, BacklogPlace, BacklogSnapshot, ItemPlacement, ItemStatus, NextItem,
};
use ralph_orchestrator_machine::StopReason;

use crate::budget::exceeded;
use crate::driver::{BacklogDriver, read_state};
use crate::error::DriverError;
use crate::executor::Executor;
use crate::ledger::ItemRun;
use crate::stop::{Choice, Stop};

/// What the message begins with if each item that is not complete is blocked, or waits for one that is.
pub const NOTHING_TO_WORK_ON: &str = "no item can be worked on";

/// Most items that a message names.
const MOST_NAMED: usize = 20;

impl<E: Executor> BacklogDriver<E> {
    /// Decides what to do next, from the backlog as it is now.
    pub(crate) fn choose(&mut self) -> Result<Choice, DriverError> {
        self.refresh()?;
        let snapshot = self.load()?;
        let next = snapshot.select_next();
        let (is_complete, unfinished) = {
            let ledger = &self.work.state().ledger;
            (ledger.is_complete(), ledger.unfinished().cloned())
        };
        if next == NextItem::Empty && self.setup.backlog.place() == BacklogPlace::Tracker {
            // Nothing is wrong: it may have one tomorrow.
            let text = format!("there are no open {}", self.setup.backlog.path().display());
            return Ok(Choice::Stop(Stop::new(StopReason::Completed, text)));
        }
        if matches!(next, NextItem::Complete) {
            return Ok(Choice::Stop(complete(&snapshot, is_complete && !self.begins)));
        }
        // Items that were added after everything was complete are new work.
        self.begins |= is_complete;
        if self.executor.is_stopping() {
            let text = "stop requested between two items";
            return Ok(Choice::Stop(Stop::new(StopReason::Interrupted, text)));
        }
        let unfinished = unfinished.filter(|_| !self.begins);
        let resumed = unfinished.and_then(|entry| resumable(&snapshot, &entry));
        let (item, resume) = match (resumed, next) {
            (Some((item, run)), _) => (item, Some(run)),
            (None, NextItem::Item { item }) => (item, None),
            (None, NextItem::Blocked { waiting }) => return Ok(Choice::Stop(blocked(waiting))),
            (None, NextItem::Empty | NextItem::Complete) => {
                let path = self.setup.backlog.path().display().to_string();
                return Err(DriverError::Empty { path });
            }
        };
        if let Some(stop) = self.find_used_up(resume.as_deref())? {
            return Ok(Choice::Stop(stop));
        }
        let has_others = snapshot.selectable().any(|other| other.id != item.id);
        Ok(Choice::Work { item: Box::new(item), resume, has_others })
    }

    /// Returns the stop if a limit does not allow this run to be resumed, or without one a further run.
    pub(crate) fn find_used_up(&self, resume: Option<&str>) -> Result<Option<Stop>, DriverError> {
        let state = resume.map(|run| read_state(&self.setup.layout, run)).transpose()?.flatten();
        let stop = exceeded(&self.setup.limits, self.used_beside(resume), state.as_ref());
        Ok(stop.map(|(reason, message)| Stop::new(reason, message)))
    }
}

/// Returns the item of the run that was begun last, if it can still be worked on.
fn resumable(snapshot: &BacklogSnapshot, entry: &ItemRun) -> Option<(BacklogItem, String)> {
    let item = snapshot.find(&entry.item)?;
    let is_open = matches!(item.status, ItemStatus::Pending | ItemStatus::InProgress);
    let is_completed =
        |id: &String| snapshot.find(id).is_some_and(|item| item.status == ItemStatus::Completed);
    let is_ready = is_open && item.dependencies.iter().all(is_completed);
    is_ready.then(|| (item.clone(), entry.run.clone()))
}

/// Returns the stop when everything is complete; `is_known`: it was before this start, too.
pub(crate) fn complete(snapshot: &BacklogSnapshot, is_known: bool) -> Stop {
    let text = match is_known {
        true => "already completed; no agent was started".to_owned(),
        false => describe_complete(snapshot),
    };
    Stop::new(StopReason::Completed, text)
}

/// Returns that everything is complete, but for what a person wants left out.
fn describe_complete(snapshot: &BacklogSnapshot) -> String {
    let (counts, left_out) = (snapshot.counts(), snapshot.left_out());
    match (counts.total, left_out.is_empty()) {
        (1, true) => "the only item is complete".to_owned(),
        (total, true) => format!("all {total} items are complete"),
        (_, false) => format!("all others are complete; {}", name_items(&left_out)),
    }
}

pub(crate) fn blocked(waiting: Vec<ItemPlacement>) -> Stop {
    let message = format!("{NOTHING_TO_WORK_ON}: {}", name_items(&waiting));
    let mut stop = Stop::new(StopReason::NeedsHuman, message);
    stop.waiting = waiting;
    stop
}

fn name_items(items: &[ItemPlacement]) -> String {
    let named = items.iter().take(MOST_NAMED).map(ToString::to_string);
    let mut names = named.collect::<Vec<_>>().join("; ");
    if let Some(more) = items.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        names.push_str(&format!("; and {more} more"));
    }
    names
}
