//! The lanes of items that are worked on at once, as they are now.

use ralph_orchestrator_driver::{BacklogLedger, ItemRun, Lane, MergeStep, OpenLane, read_ledger};
use ralph_orchestrator_machine::{RunUsage, State, StopReason};
use ralph_orchestrator_store::{Layout, Lock, read_run};
use ralph_orchestrator_story::status::phase;
use ralph_orchestrator_text::{count, one_line};
use serde_json::{Value, json};

use crate::error::CommandError;

/// Returns where the work on each item is that is on no other branch than its own.
///
/// # Errors
/// The record of the backlog cannot be read.
pub fn list_unmerged(layout: &Layout) -> Result<Vec<String>, CommandError> {
    let ledger = read_ledger(layout)?.unwrap_or_default();
    let own = ledger.lanes.iter().map(|(item, open)| place(item, &open.lane));
    Ok(own.chain(list_left(&ledger)).collect())
}

/// Returns the same of what was worked on before the last new beginning, as long as it is there.
pub(crate) fn list_left(ledger: &BacklogLedger) -> Vec<String> {
    let there = ledger.left_lanes.iter().filter(|(_, lane)| lane.paths().folder.exists());
    there.map(|(item, lane)| place(item, lane)).collect()
}

/// Returns where the work on an item is.
fn place(item: &str, lane: &Lane) -> String {
    let folder = lane.paths().folder;
    format!("{}: branch {} in {}", one_line(item, 80), lane.branch, folder.display())
}

/// A lane and the run in it.
pub(crate) struct LaneView {
    item: String,
    open: OpenLane,
    run: Option<(ItemRun, Option<State>, bool)>,
}

impl LaneView {
    /// Reads the lanes that are there, with their runs.
    pub(crate) fn read(ledger: &BacklogLedger) -> Vec<Self> {
        let lanes = ledger.lanes.iter();
        let read = |(item, open): (&String, &OpenLane)| {
            let layout = Layout::new(open.lane.paths().state);
            let run = ledger.latest_of(item).map(|entry| {
                let state = read_run(&layout, &entry.run, |_| {}).ok().map(|read| read.found.state);
                (entry.clone(), state, Lock::holder(&layout).is_some())
            });
            Self { item: item.clone(), open: open.clone(), run }
        };
        lanes.map(read).collect()
    }

    /// One word for how it stands.
    fn phase(&self) -> &'static str {
        match (&self.open.step, &self.run) {
            (MergeStep::Begun | MergeStep::Proved | MergeStep::Merged, _) => "merging",
            (MergeStep::Rejected, _) => "sent_back",
            (MergeStep::None, Some((entry, ..))) if entry.reason == Some(StopReason::Completed) => {
                "waits_for_merge"
            }
            (MergeStep::None, Some((_, Some(state), is_held))) => phase(state, *is_held),
            (MergeStep::None, _) => "begins",
        }
    }

    /// What its run has used so far.
    fn usage(&self) -> RunUsage {
        let Some((entry, state, _)) = &self.run else { return RunUsage::default() };
        state.as_ref().map_or(entry.usage, RunUsage::from_state)
    }

    /// Returns lines about it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let is_held = self.run.as_ref().is_some_and(|(.., is_held)| *is_held);
        let left =
            (!is_held).then(|| format!("  unmerged    {}", place(&self.item, &self.open.lane)));
        [Some(self.line()), left].into_iter().flatten().collect()
    }

    fn line(&self) -> String {
        let words = self.phase().replace('_', " ");
        let iterations = count(self.usage().iterations, "iteration");
        let run = self.run.as_ref().map(|(entry, ..)| format!(", run {}", entry.run));
        let item = one_line(&self.item, 80);
        format!("  lane        {item}: {words}, {iterations}{}", run.unwrap_or_default())
    }

    /// Returns the same for JSON.
    pub(crate) fn object(&self) -> Value {
        let paths = self.open.lane.paths();
        json!({
            "item": self.item,
            "phase": self.phase(),
            "run": self.run.as_ref().map(|(entry, ..)| &entry.run),
            "iterations": self.usage().iterations,
            "branch": self.open.lane.branch,
            "worktree": paths.folder,
            "state_dir": paths.state,
            "sent_back": self.open.sent_back,
        })
    }
}
