//! What a driver does next.

use ralph_orchestrator_backlog::{
    BacklogItem, BacklogSnapshot, ItemPlacement, ItemStatus, NextItem,
};
use ralph_orchestrator_machine::StopReason;

use crate::budget::exceeded;
use crate::driver::{BacklogDriver, read_state};
use crate::error::DriverError;
use crate::executor::Executor;
use crate::ledger::ItemRun;
use crate::stop::{Choice, Stop};

/// Most items that a message names.
const MOST_NAMED: usize = 20;

impl<E: Executor> BacklogDriver<E> {
    /// Decides what to do next, from the backlog as it is now.
    pub(crate) fn choose(&mut self) -> Result<Choice, DriverError> {
        let snapshot = self.load()?;
        let next = snapshot.select_next();
        let (is_complete, unfinished) = {
            let ledger = &self.work.state().ledger;
            (ledger.is_complete(), ledger.unfinished().cloned())
        };
        if matches!(next, NextItem::Complete) {
            let counts = snapshot.counts();
            let text = if is_complete && !self.begins {
                "already completed; no agent was started".to_owned()
            } else {
                match counts.total {
                    1 => "the only item is complete".to_owned(),
                    total => format!("all {total} items are complete"),
                }
            };
            return Ok(Choice::Stop(Stop::new(StopReason::Completed, text)));
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
        Ok(Choice::Work { item: Box::new(item), resume })
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

fn blocked(waiting: Vec<ItemPlacement>) -> Stop {
    let named = waiting.iter().take(MOST_NAMED).map(ToString::to_string);
    let mut names = named.collect::<Vec<_>>().join("; ");
    if let Some(more) = waiting.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        names.push_str(&format!("; and {more} more"));
    }
    let message = format!("no item can be worked on: {names}");
    let mut stop = Stop::new(StopReason::NeedsHuman, message);
    stop.waiting = waiting;
    stop
}
