//! Merges what is complete in a lane onto the branch of the run: made as an object, proved, and only then on the branch.
//!
//! Each step is recorded before it changes anything, and can be repeated.

use std::rc::Rc;
use std::sync::Arc;

use ralph_orchestrator_backlog::{BacklogItem, ItemStatus};

use crate::error::DriverError;
use crate::event::{BacklogEvent, BacklogObserver};
use crate::iteration_guard::SharedWork;
use crate::lane::{BranchMove, LaneMerge, LanePlaces, MergeProof};
use crate::ledger::{ItemRun, MergeState, MergeStep, OpenLane};
use crate::record::SeriesRecord;

/// Most files that a reason names.
const MOST_NAMED: usize = 20;

/// What merges need.
#[derive(Clone)]
pub(crate) struct Merging {
    pub(crate) places: Rc<dyn LanePlaces>,
    pub(crate) work: Arc<SharedWork>,
    pub(crate) observer: Arc<dyn BacklogObserver>,
}

/// What became of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeEnd {
    /// The run's branch has it; the item's status is still to be written.
    Merged,
    /// The item is sent back.
    SentBack,
    /// A stop was requested before it was proved.
    Interrupted,
}

impl Merging {
    /// Merges the work of a run that is complete in its lane, from where it was left.
    pub(crate) async fn merge(&self, entry: &ItemRun) -> Result<MergeEnd, DriverError> {
        let fail = |problem| DriverError::Lane { item: entry.item.clone(), problem };
        let (item, before) = self.find_items(entry)?;
        let items = (&item, before.as_slice());
        loop {
            let open = self.find_lane(&entry.item)?;
            let merge = match self.known_merge(&open, entry) {
                Some(merge) => merge,
                None => {
                    let merge = self.places.merge(&open.lane, &item).await.map_err(fail)?;
                    self.begin(entry, &merge)?;
                    merge
                }
            };
            if open.step != MergeStep::Proved
                && let Some(end) = self.prove(entry, (&open, items), &merge).await?
            {
                return Ok(end);
            }
            match self.places.take(&merge).await.map_err(fail)? {
                BranchMove::Done => {
                    let (item, run) = (entry.item.clone(), entry.run.clone());
                    let commit = merge.commit;
                    let record = SeriesRecord::ItemMerged {
                        item: item.clone(),
                        run: run.clone(),
                        commit: commit.clone(),
                    };
                    self.work.state().append(&record)?;
                    self.observer.on_backlog_event(&BacklogEvent::ItemMerged { item, run, commit });
                    return Ok(MergeEnd::Merged);
                }
                // Somebody else has committed onto the branch: what was proved is not what would be there.
                BranchMove::Stale => {
                    let merge = self.places.merge(&open.lane, &item).await.map_err(fail)?;
                    self.begin(entry, &merge)?;
                }
            }
        }
    }

    fn begin(&self, entry: &ItemRun, merge: &LaneMerge) -> Result<(), DriverError> {
        let (item, run, merge) = (entry.item.clone(), entry.run.clone(), merge.clone());
        self.work.state().append(&SeriesRecord::MergeBegun { item, run, merge })
    }

    /// Has the checks decide about a merge. Returns the end, unless they accept.
    async fn prove(
        &self,
        entry: &ItemRun,
        (open, items): (&OpenLane, (&BacklogItem, &[BacklogItem])),
        merge: &LaneMerge,
    ) -> Result<Option<MergeEnd>, DriverError> {
        let fail = |problem| DriverError::Lane { item: entry.item.clone(), problem };
        if !merge.conflicts.is_empty() {
            return self.send_back(entry, &describe_conflicts(&merge.conflicts)).map(Some);
        }
        let marked = self.places.find_marks(&merge.commit, &open.conflicts).await.map_err(fail)?;
        if !marked.is_empty() {
            return self.send_back(entry, &describe_marks(&marked)).map(Some);
        }
        match self.places.prove(&open.lane, items, &merge.commit).await.map_err(fail)? {
            MergeProof::Accepted => {
                let (item, run) = (entry.item.clone(), entry.run.clone());
                let commit = merge.commit.clone();
                self.work.state().append(&SeriesRecord::MergeProved { item, run, commit })?;
                Ok(None)
            }
            MergeProof::Rejected(reason) => self.send_back(entry, &reason).map(Some),
            MergeProof::Interrupted => Ok(Some(MergeEnd::Interrupted)),
        }
    }

    fn send_back(&self, entry: &ItemRun, reason: &str) -> Result<MergeEnd, DriverError> {
        let reason = self.work.redactor.text(reason).into_owned();
        let (item, run) = (entry.item.clone(), entry.run.clone());
        let event = BacklogEvent::ItemSentBack {
            item: item.clone(),
            run: run.clone(),
            reason: reason.clone(),
        };
        self.work.state().append(&SeriesRecord::MergeRejected { item, run, reason })?;
        self.observer.on_backlog_event(&event);
        Ok(MergeEnd::SentBack)
    }

    /// Returns the merge of this run that was begun, if there is one.
    fn known_merge(&self, open: &OpenLane, entry: &ItemRun) -> Option<LaneMerge> {
        let is_going = matches!(open.step, MergeStep::Begun | MergeStep::Proved);
        let (run, merge) = open.merge.as_ref().filter(|_| is_going)?;
        (*run == entry.run).then(|| merge.clone())
    }

    fn find_lane(&self, item: &str) -> Result<OpenLane, DriverError> {
        let found = self.work.state().ledger.lanes.get(item).cloned();
        found.ok_or_else(|| DriverError::Lane {
            item: item.to_owned(),
            problem: "it is complete in a lane that is not recorded".to_owned(),
        })
    }

    /// Returns the item as the backlog has it, and those that were merged before; what is there no more is merged all the same.
    fn find_items(&self, entry: &ItemRun) -> Result<(BacklogItem, Vec<BacklogItem>), DriverError> {
        let snapshot = self.work.backlog.load()?;
        let found = snapshot.find(&entry.item).cloned();
        let state = self.work.state();
        let is_merged = |other: &BacklogItem| {
            let mut runs = state.ledger.runs.iter().filter(|run| run.item == other.id);
            other.id != entry.item && runs.any(|run| run.merged == MergeState::Merged)
        };
        let item = found.unwrap_or_else(|| bare_item(&entry.item, &entry.title));
        Ok((item, snapshot.items.into_iter().filter(is_merged).collect()))
    }
}

/// Returns an item of which no more is known.
pub(crate) fn bare_item(id: &str, title: &str) -> BacklogItem {
    BacklogItem {
        id: id.to_owned(),
        title: title.to_owned(),
        description: String::new(),
        status: ItemStatus::InProgress,
        priority: 0,
        criteria: Vec::new(),
        dependencies: Vec::new(),
        notes: Vec::new(),
        verify: None,
        location: None,
    }
}

fn name_files(files: &[String]) -> String {
    let lines = files.iter().take(MOST_NAMED).map(|file| format!("- {file}\n"));
    let mut named: String = lines.collect();
    if let Some(more) = files.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        named.push_str(&format!("- and {more} more\n"));
    }
    named
}

fn describe_conflicts(files: &[String]) -> String {
    format!(
        "Both changed the same lines. The files below have both versions between the marks `<<<<<<<`, `=======` and `>>>>>>>`; \
         make one of them that does what both were to do, and remove the marks:\n{}",
        name_files(files)
    )
}

fn describe_marks(files: &[String]) -> String {
    format!(
        "These files still have the marks `<<<<<<<` or `>>>>>>>` of a conflict; make one version of both and remove the marks:\n{}",
        name_files(files)
    )
}
