//! The fold of what the driver has recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_backlog::{BacklogSnapshot, ItemStatus, SetAside};
use ralph_orchestrator_machine::RunUsage;
use ralph_orchestrator_machine::{HookEvent, StopReason};
use ralph_orchestrator_store::{Layout, StateError, read_series};
use serde::Serialize;

use crate::lane::{Lane, LaneMerge, LaneTrunk};
use crate::record::SeriesRecord;

/// Which item is which run, and what was used, since the work on the backlog began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BacklogLedger {
    /// Whether anything was recorded.
    pub is_started: bool,
    /// The runs in the order in which they began.
    pub runs: Vec<ItemRun>,
    /// Those from before the last new beginning, which count no more.
    pub earlier: Vec<ItemRun>,
    /// Why the work on the backlog ended last; `None` while it goes on, or after a crash.
    pub stop: Option<(StopReason, String)>,
    /// The events of that end whose commands have not ended yet.
    pub due_hooks: Vec<HookEvent>,
    /// How often the commands of such an event have ended.
    pub hooks_ended: u64,
    /// Requests of people to add items that are done.
    pub additions: Vec<String>,
    /// The items that are blocked or skipped, by id.
    pub set_aside: BTreeMap<String, AsideItem>,
    /// The branch onto which lanes are merged, if items are worked on at once.
    pub trunk: Option<LaneTrunk>,
    /// The lanes that are there, by the item.
    pub lanes: BTreeMap<String, OpenLane>,
    /// Those from before the last new beginning whose work was not merged, with their items.
    pub left_lanes: Vec<(String, Lane)>,
}

/// A lane that is there, or about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLane {
    /// Where it is.
    pub lane: Lane,
    /// Its last merge, with the run whose work it has.
    pub merge: Option<(String, LaneMerge)>,
    /// How far that has come.
    pub step: MergeStep,
    /// The files that were in conflict in any merge.
    pub conflicts: Vec<String>,
    /// Why the item was sent back last, if it was.
    pub sent_back: Option<String>,
}

/// How far the merge of a lane has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeStep {
    /// Nothing is to be merged yet.
    None,
    /// The merge exists.
    Begun,
    /// The checks accepted it.
    Proved,
    /// It was not accepted: the next run of the item begins with it.
    Rejected,
    /// The run's branch has it.
    Merged,
}

/// An item that is not worked on.
#[derive(Clone, Debug, PartialEq)]
pub struct AsideItem {
    /// Why.
    pub aside: SetAside,
    /// The run after which it was blocked; empty if a person skipped it.
    pub run: String,
    /// Whether the backlog says it, if its format can.
    pub is_written: bool,
}

/// A run of an item.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ItemRun {
    /// The item's id.
    pub item: String,
    /// Its title when the run began.
    pub title: String,
    /// The run.
    pub run: String,
    /// How it ended last; `None` while it goes on, or after a crash.
    pub reason: Option<StopReason>,
    /// What it had used by then.
    pub usage: RunUsage,
    /// Whether the item's status says what the run's latch says.
    pub is_written: bool,
    /// It is the initializer's run, which has no item.
    pub is_initializer: bool,
    /// Its item was set aside after it: the run is over, and a further one begins anew.
    #[serde(skip)]
    pub is_over: bool,
    /// The checks had accepted the workspace before any work on the item, so that its completion proves nothing.
    #[serde(skip)]
    pub accepted_before: bool,
    /// The state directory that it is in, if it is one of several that went on at once.
    #[serde(skip)]
    pub state: Option<PathBuf>,
    /// What became of its work after it was complete, if it was merged.
    #[serde(skip)]
    pub merged: MergeState,
    /// The commit as which it was merged, or why it was sent back.
    #[serde(skip)]
    pub merge_result: Option<String>,
}

/// Whether the work of a complete run is where it is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeState {
    /// It never was anywhere else.
    #[default]
    InPlace,
    /// It is in a lane.
    Waiting,
    /// It was sent back: a further run of the item goes on with it.
    SentBack,
    /// It was merged.
    Merged,
}

/// The most items that are named where they prove nothing.
const MOST_NAMED: usize = 5;

impl ItemRun {
    fn begin(item: &str, title: &str, run: &str) -> Self {
        Self {
            item: item.to_owned(),
            title: title.to_owned(),
            run: run.to_owned(),
            reason: None,
            usage: RunUsage::default(),
            is_written: false,
            is_initializer: false,
            is_over: false,
            accepted_before: false,
            state: None,
            merged: MergeState::InPlace,
            merge_result: None,
        }
    }

    /// Returns the state directory that the run is in, of a series with this one.
    #[must_use]
    pub fn layout(&self, of_series: &Layout) -> Layout {
        self.state.clone().map_or_else(|| of_series.clone(), Layout::new)
    }

    /// Returns whether the item goes on in this run: it is neither complete nor set aside.
    fn is_open(&self) -> bool {
        !self.is_initializer && !self.is_over && self.reason != Some(StopReason::Completed)
    }
}

impl BacklogLedger {
    /// Applies a record.
    pub fn apply(&mut self, record: &SeriesRecord) {
        match record {
            SeriesRecord::SeriesStarted { .. } => self.begin_anew(),
            SeriesRecord::ItemStarted { item, title, run } => {
                self.stop = None;
                let entry = self.begin_run(item, title, run);
                self.runs.push(entry);
            }
            SeriesRecord::ItemResumed { run, .. } => {
                self.stop = None;
                self.change_run(run, |entry| entry.reason = None);
            }
            SeriesRecord::InitializerStarted { run } => {
                self.stop = None;
                let entry = ItemRun::begin("", "", run);
                self.runs.push(ItemRun { is_written: true, is_initializer: true, ..entry });
            }
            SeriesRecord::InitializerStopped { run, reason, usage, .. } => {
                self.end(run, *reason, *usage);
            }
            SeriesRecord::ItemStopped { item, run, reason, usage, blocked, .. } => {
                self.end(run, *reason, *usage);
                if let Some(why) = blocked {
                    self.put_aside(item, SetAside::Blocked(why.clone()), run);
                }
            }
            SeriesRecord::ItemSkipped { item } => self.put_aside(item, SetAside::Skipped, ""),
            SeriesRecord::ItemRetried { item } => {
                self.stop = None;
                self.set_aside.remove(item);
            }
            SeriesRecord::ItemFinished { run, usage, accepted_before, .. } => {
                self.end(run, StopReason::Completed, *usage);
                self.change_run(run, |entry| entry.accepted_before = *accepted_before);
            }
            SeriesRecord::StatusWritten { item, status: ItemStatus::Blocked, .. } => {
                if let Some(item) = self.set_aside.get_mut(item) {
                    item.is_written = true;
                }
            }
            SeriesRecord::StatusWritten { run, .. } => {
                self.change_run(run, |entry| entry.is_written = true);
            }
            SeriesRecord::ItemAdded { addition, .. } => self.additions.push(addition.clone()),
            SeriesRecord::SeriesStopped { reason, message, hooks } => {
                self.stop = Some((*reason, message.clone()));
                self.due_hooks.clone_from(hooks);
            }
            SeriesRecord::HookFinished { event, .. } => {
                self.due_hooks.retain(|due| due != event);
                self.hooks_ended = self.hooks_ended.saturating_add(1);
            }
            record @ (SeriesRecord::LanesStarted { .. }
            | SeriesRecord::LaneOpened { .. }
            | SeriesRecord::MergeBegun { .. }
            | SeriesRecord::MergeProved { .. }
            | SeriesRecord::MergeRejected { .. }
            | SeriesRecord::ItemMerged { .. }
            | SeriesRecord::LaneClosed { .. }) => self.apply_to_lanes(record),
            SeriesRecord::IterationGuarded { .. } => {}
        }
    }

    fn begin_anew(&mut self) {
        let Self { additions, mut earlier, runs, mut set_aside, mut left_lanes, lanes, .. } =
            std::mem::take(self);
        let unmerged = lanes.into_iter().filter(|(_, open)| open.step != MergeStep::Merged);
        left_lanes.extend(unmerged.map(|(item, open)| (item, open.lane)));
        earlier.extend(runs);
        // What a person decided holds until that person decides otherwise.
        set_aside.retain(|_, item| item.aside == SetAside::Skipped);
        *self =
            Self { is_started: true, additions, earlier, set_aside, left_lanes, ..Self::default() };
    }

    fn change_run(&mut self, run: &str, change: impl FnOnce(&mut ItemRun)) {
        if let Some(entry) = self.runs.iter_mut().find(|entry| entry.run == run) {
            change(entry);
        }
    }

    /// Returns a run that begins; one in a lane begins with what was merged there.
    fn begin_run(&mut self, item: &str, title: &str, run: &str) -> ItemRun {
        let mut entry = ItemRun::begin(item, title, run);
        if let Some(open) = self.lanes.get_mut(item) {
            entry.state = Some(open.lane.paths().state);
            entry.merged = MergeState::Waiting;
            (open.merge, open.step) = (None, MergeStep::None);
        }
        entry
    }

    /// Applies a record about lanes and merges.
    fn apply_to_lanes(&mut self, record: &SeriesRecord) {
        match record {
            SeriesRecord::LanesStarted { trunk } => self.trunk = Some(trunk.clone()),
            SeriesRecord::LaneOpened { item, lane } => {
                let (merge, step, conflicts) = (None, MergeStep::None, Vec::new());
                let lane = lane.clone();
                match self.lanes.get_mut(item) {
                    // Its worktree was gone.
                    Some(open) => open.lane = lane,
                    None => {
                        let open = OpenLane { lane, merge, step, conflicts, sent_back: None };
                        self.lanes.insert(item.clone(), open);
                    }
                }
            }
            SeriesRecord::MergeBegun { item, run, merge } => {
                if let Some(open) = self.lanes.get_mut(item) {
                    open.conflicts.extend(merge.conflicts.iter().cloned());
                    open.merge = Some((run.clone(), merge.clone()));
                    open.step = MergeStep::Begun;
                }
            }
            SeriesRecord::MergeProved { item, .. } => self.set_step(item, MergeStep::Proved),
            SeriesRecord::MergeRejected { item, run, reason } => {
                self.set_step(item, MergeStep::Rejected);
                if let Some(open) = self.lanes.get_mut(item) {
                    open.sent_back = Some(reason.clone());
                }
                self.set_merged(run, MergeState::SentBack, reason);
            }
            SeriesRecord::ItemMerged { item, run, commit } => {
                self.set_step(item, MergeStep::Merged);
                self.set_merged(run, MergeState::Merged, commit);
            }
            SeriesRecord::LaneClosed { item } => {
                self.lanes.remove(item);
            }
            _ => {}
        }
    }

    fn set_step(&mut self, item: &str, step: MergeStep) {
        if let Some(open) = self.lanes.get_mut(item) {
            open.step = step;
        }
    }

    fn set_merged(&mut self, run: &str, merged: MergeState, result: &str) {
        self.change_run(run, |entry| {
            entry.merged = merged;
            entry.merge_result = Some(result.to_owned());
        });
    }

    fn put_aside(&mut self, item: &str, aside: SetAside, run: &str) {
        let runs = self.runs.iter_mut().filter(|entry| entry.item == item);
        runs.for_each(|entry| entry.is_over = true);
        // A skip is written before it is recorded.
        let is_written = aside == SetAside::Skipped;
        let run = run.to_owned();
        self.set_aside.insert(item.to_owned(), AsideItem { aside, run, is_written });
    }

    /// Sets the items aside that are blocked or skipped. When the work begins anew, what was blocked is open again.
    pub fn apply_to(&self, snapshot: &mut BacklogSnapshot, begins_anew: bool) {
        let is_kept = |item: &AsideItem| !begins_anew || item.aside == SetAside::Skipped;
        let kept = self.set_aside.iter().filter(|(_, item)| is_kept(item));
        snapshot.put_aside(kept.map(|(id, item)| (id, &item.aside)));
        let open = self.set_aside.iter().filter(|(_, item)| !is_kept(item) && item.is_written);
        for (id, _) in open {
            let found = snapshot.items.iter_mut().find(|item| item.id == *id);
            if let Some(item) = found.filter(|item| item.status == ItemStatus::Blocked) {
                item.status = ItemStatus::Pending;
            }
        }
    }

    fn end(&mut self, run: &str, reason: StopReason, usage: RunUsage) {
        self.change_run(run, |entry| (entry.reason, entry.usage) = (Some(reason), usage));
    }

    /// Returns the items that are complete although the checks had accepted the workspace before any work on them, for
    /// people; `None` if there are none.
    #[must_use]
    pub fn unproved_items(&self) -> Option<String> {
        // What was sent back begins with its own work.
        let is_first = |entry: &&ItemRun| {
            let first = self.runs.iter().find(|other| other.item == entry.item);
            first.is_some_and(|first| first.run == entry.run)
        };
        let entries = self.runs.iter().filter(|entry| entry.accepted_before).filter(is_first);
        let items: Vec<String> = entries.map(|entry| format!("`{}`", entry.item)).collect();
        let more = items.len().saturating_sub(MOST_NAMED);
        let named = items.get(..items.len() - more).unwrap_or_default().join(", ");
        match (items.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(named),
            (false, more) => Some(format!("{named} and {more} more")),
        }
    }

    /// Returns whether all items were completed when the work ended last.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.stop, Some((StopReason::Completed, _)))
    }

    /// Returns the run that was begun last, if it is not complete and its item not set aside.
    #[must_use]
    pub fn unfinished(&self) -> Option<&ItemRun> {
        self.runs.last().filter(|entry| entry.is_open())
    }

    /// Returns the run that was begun last for an item, if it is not complete and the item not set aside.
    #[must_use]
    pub fn unfinished_of(&self, item: &str) -> Option<&ItemRun> {
        self.latest_of(item).filter(|entry| entry.is_open())
    }

    /// Returns the run that was begun last for an item.
    #[must_use]
    pub fn latest_of(&self, item: &str) -> Option<&ItemRun> {
        self.runs.iter().rev().find(|entry| !entry.is_initializer && entry.item == item)
    }

    /// Returns the run in a lane that was begun last.
    #[must_use]
    pub fn newest_in_lanes(&self) -> Option<&ItemRun> {
        self.runs.iter().rev().find(|entry| entry.state.is_some())
    }

    /// Returns how often an item was sent back since it was set aside last.
    #[must_use]
    pub fn count_sent_back(&self, item: &str) -> usize {
        let is_sent_back = |entry: &&ItemRun| {
            entry.item == item && entry.merged == MergeState::SentBack && !entry.is_over
        };
        self.runs.iter().filter(is_sent_back).count()
    }

    /// Returns the runs that are complete in their lane and not merged, in the order in which they began.
    pub fn unmerged(&self) -> impl Iterator<Item = &ItemRun> {
        self.runs.iter().filter(|entry| {
            entry.reason == Some(StopReason::Completed) && entry.merged == MergeState::Waiting
        })
    }

    /// Returns the run of the initializer, if that is still to be finished.
    #[must_use]
    pub fn initializing(&self) -> Option<&ItemRun> {
        let is_open = |entry: &&ItemRun| {
            entry.is_initializer && entry.reason != Some(StopReason::Initialized)
        };
        self.runs.last().filter(is_open)
    }

    /// Returns the run whose completion the backlog does not say yet.
    #[must_use]
    pub fn unwritten(&self) -> Option<&ItemRun> {
        self.runs.iter().find(|entry| {
            let is_in_place = matches!(entry.merged, MergeState::InPlace | MergeState::Merged);
            entry.reason == Some(StopReason::Completed) && is_in_place && !entry.is_written
        })
    }

    /// Returns what all runs but this one have used.
    #[must_use]
    pub fn used_beside(&self, run: Option<&str>) -> RunUsage {
        let others = self.runs.iter().filter(|entry| Some(entry.run.as_str()) != run);
        others.fold(RunUsage::default(), |sum, entry| sum.plus(entry.usage))
    }

    /// Returns what the runs of an item have used, but for this run, since it was set aside last.
    #[must_use]
    pub fn used_since_aside(&self, item: &str, beside: Option<&str>) -> RunUsage {
        let counts = |entry: &&ItemRun| {
            entry.item == item
                && !entry.is_initializer
                && !entry.is_over
                && Some(entry.run.as_str()) != beside
        };
        let runs = self.runs.iter().filter(counts);
        runs.fold(RunUsage::default(), |sum, entry| sum.plus(entry.usage))
    }

    /// Returns what all runs of an item have used, but for this run.
    #[must_use]
    pub fn used_by_item(&self, item: &str, beside: Option<&str>) -> RunUsage {
        let is_of_item = |entry: &&ItemRun| !entry.is_initializer && entry.item == item;
        let runs = self.runs.iter().filter(is_of_item);
        let others = runs.filter(|entry| Some(entry.run.as_str()) != beside);
        others.fold(RunUsage::default(), |sum, entry| sum.plus(entry.usage))
    }

    /// Returns the item of a run, also of one from before the last new beginning.
    #[must_use]
    pub fn item_of(&self, run: &str) -> Option<&ItemRun> {
        self.runs.iter().chain(&self.earlier).find(|entry| entry.run == run)
    }
}

/// Reads the record of a state directory without changing anything; `None` if there is none.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn read_ledger(layout: &Layout) -> Result<Option<BacklogLedger>, StateError> {
    let mut ledger = BacklogLedger::default();
    read_series(layout, |entry| ledger.apply(&entry.record))?;
    Ok(Some(ledger).filter(|ledger| ledger.is_started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_backlog::ItemStatus;

    fn started(item: &str, run: &str) -> SeriesRecord {
        let (item, run) = (item.to_owned(), run.to_owned());
        SeriesRecord::ItemStarted { title: item.clone(), item, run }
    }

    fn finished(item: &str, run: &str, iterations: u64) -> SeriesRecord {
        let usage = RunUsage { iterations, ..RunUsage::default() };
        SeriesRecord::ItemFinished {
            item: item.into(),
            run: run.into(),
            validated: true,
            accepted_before: false,
            usage,
        }
    }

    fn fold(records: &[SeriesRecord]) -> BacklogLedger {
        let mut ledger = BacklogLedger::default();
        records.iter().for_each(|record| ledger.apply(record));
        ledger
    }

    #[test]
    fn a_completion_is_unwritten_until_the_status_is() {
        let mut records = vec![started("a", "1"), finished("a", "1", 2)];
        let ledger = fold(&records);
        assert_eq!(ledger.unwritten().map(|entry| entry.run.as_str()), Some("1"));
        assert_eq!(ledger.unfinished(), None);
        records.push(SeriesRecord::StatusWritten {
            item: "a".into(),
            run: "1".into(),
            status: ItemStatus::Completed,
        });
        assert_eq!(fold(&records).unwritten(), None);
    }

    #[test]
    fn what_other_runs_used_leaves_out_the_one_that_is_resumed() {
        let ledger = fold(&[started("a", "1"), finished("a", "1", 2), started("b", "2")]);
        assert_eq!(ledger.used_beside(Some("2")).iterations, 2);
        assert_eq!(ledger.used_beside(Some("1")).iterations, 0);
        assert_eq!(ledger.unfinished().map(|entry| entry.item.as_str()), Some("b"));
    }

    #[test]
    fn the_run_of_the_initializer_has_no_item_and_is_open_until_the_backlog_is_made() {
        let run = || "0".to_owned();
        let ended = |reason, iterations| {
            let usage = RunUsage { iterations, ..RunUsage::default() };
            SeriesRecord::InitializerStopped { run: run(), reason, message: String::new(), usage }
        };
        let begun = SeriesRecord::InitializerStarted { run: run() };
        let mut records = vec![begun, ended(StopReason::Interrupted, 1)];
        let ledger = fold(&records);
        assert_eq!(ledger.initializing().map(|entry| entry.run.as_str()), Some("0"));
        assert_eq!((ledger.unfinished(), ledger.unwritten()), (None, None));
        records.push(ended(StopReason::Initialized, 2));
        let ledger = fold(&records);
        assert_eq!((ledger.initializing(), ledger.unfinished()), (None, None));
        assert_eq!(ledger.used_beside(None).iterations, 2, "it counts against all limits");
    }

    #[test]
    fn a_new_beginning_counts_from_zero_and_keeps_the_additions() {
        let added = SeriesRecord::ItemAdded { addition: "x".into(), item: None, problem: None };
        let begin = SeriesRecord::SeriesStarted {
            version: 1,
            format: "json".into(),
            path: "items.json".into(),
        };
        let ledger = fold(&[begin.clone(), started("a", "1"), finished("a", "1", 2), added, begin]);
        assert_eq!(ledger.used_beside(None), RunUsage::default());
        assert_eq!(ledger.additions, ["x"]);
        assert!(ledger.is_started && ledger.runs.is_empty());
        assert_eq!(ledger.item_of("1").map(|entry| entry.item.as_str()), Some("a"));
    }
}
