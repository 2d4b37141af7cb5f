//! The lanes of items that are worked on at once, as they are now.

use ralph_orchestrator_driver::{BacklogLedger, ItemRun, MergeStep, OpenLane};
use ralph_orchestrator_machine::{RunUsage, State, StopReason};
use ralph_orchestrator_store::{Layout, Lock, read_run};
use ralph_orchestrator_story::status::phase;
use ralph_orchestrator_text::{count, one_line};
use serde_json::{Value, json};

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

    /// Returns a line about it.
    pub(crate) fn line(&self) -> String {
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
