//! What is on the branch of a worktree: which runs worked there, whenever that was, and what of their work was accepted.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_driver::{BacklogLedger, ItemRun, read_ledger};
use ralph_orchestrator_git::{GitError, ObjectId, Repository};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::{Layout, StoredRun, WorktreeRecord, read_current_run, read_run};
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::process::{Confinement, SupervisedGit, environment};
use super::worktree::{find_of, folder_of, locate};
use crate::context::Context;
use crate::error::CommandError;
use crate::sandbox::SandboxPolicy;

/// A run that is complete.
pub(super) struct CompleteRun {
    pub(super) found: StoredRun,
    /// Its item; `None` without a backlog.
    pub(super) item: Option<ItemRun>,
}

/// What opening a repository takes.
pub(super) struct Opening {
    pub(super) runtime: Handle,
    /// While it is true, processes of git are ended.
    pub(super) cancelled: watch::Receiver<bool>,
}

impl Opening {
    /// Returns what nothing ends, on this thread's runtime.
    pub(super) fn here() -> Self {
        Self { runtime: Handle::current(), cancelled: watch::channel(false).1 }
    }
}

/// What is on the branch of a worktree.
pub(super) struct BranchWork {
    pub(super) record: WorktreeRecord,
    /// The complete runs, of each item the last one.
    pub(super) complete: Vec<CompleteRun>,
    /// The last runs of items on which agents have worked and that are not complete.
    pub(super) unproved: Vec<ItemRun>,
    /// Where it is kept what the repository was before agents worked there.
    private: PathBuf,
}

impl BranchWork {
    /// Finds what is on the branch of the worktree in which agents worked last; `None` if they worked in none.
    pub(super) fn find(context: &Context, layout: &Layout) -> Result<Option<Self>, CommandError> {
        let records = locate(context, layout);
        if context.loaded.config.backlog.is_none() {
            let Some(found) = read_current_run(layout, |_| {})? else { return Ok(None) };
            let Some(record) = find_of(&records, &found).cloned() else { return Ok(None) };
            let private = layout.git(&found.run);
            let is_complete = found.state.completion().is_some();
            let complete = is_complete.then_some(CompleteRun { found, item: None });
            let complete = complete.into_iter().collect();
            return Ok(Some(Self { record, complete, unproved: Vec::new(), private }));
        }
        let ledger = read_ledger(layout)?.unwrap_or_default();
        let Some((record, private)) = find_place(&ledger, &records, layout) else {
            return Ok(None);
        };
        let mut work = Self { record, complete: Vec::new(), unproved: Vec::new(), private };
        work.add_items(&ledger, layout);
        Ok(Some(work))
    }

    /// Adds the items whose work is on the branch, also that from before the work on the backlog began anew.
    fn add_items(&mut self, ledger: &BacklogLedger, layout: &Layout) {
        let mut known = BTreeSet::new();
        let entries = ledger.earlier.iter().chain(&ledger.runs);
        for entry in entries.filter(|entry| !entry.is_initializer).rev() {
            let is_complete = entry.reason == Some(StopReason::Completed);
            if known.contains(&entry.item) || !(is_complete || entry.usage.iterations > 0) {
                continue;
            }
            // What was deleted by hand is not known to be here.
            let Ok(read) = read_run(layout, &entry.run, |_| {}) else { continue };
            if !folder_of(&read.found).is_some_and(|folder| self.record.is_at(&folder)) {
                continue;
            }
            // A run that committed nothing has left nothing on the branch.
            if !is_complete && read.found.state.saves.commit.is_none() {
                continue;
            }
            known.insert(entry.item.clone());
            if is_complete {
                self.complete.push(CompleteRun { found: read.found, item: Some(entry.clone()) });
            } else {
                self.unproved.push(entry.clone());
            }
        }
        self.complete.reverse();
        self.unproved.reverse();
    }

    /// Opens the repository in the worktree, to be used outside of any run.
    pub(super) fn open(
        &self,
        context: &Context,
        policy: Option<&SandboxPolicy>,
        Opening { runtime, cancelled }: Opening,
    ) -> Result<Repository, String> {
        let places = context.agent_places();
        let supervisor = Supervisor::this_binary();
        let git = SupervisedGit::find(supervisor, &context.vars, &places, runtime)?;
        let git =
            git.cancelled_by(cancelled).confined(Confinement::new(policy, context), Vec::new());
        let (workspace, vars) = (self.record.workspace(), environment(&context.vars));
        Repository::discover_with(&workspace, &self.private, Arc::new(git), vars)
            .map_err(|error| error.to_string())
    }

    /// Returns the last commit of the branch.
    pub(super) fn find_tip(&self, repository: &Repository) -> Result<ObjectId, String> {
        let branch = &self.record.branch;
        let tip =
            repository.find_branch_tip(branch).map_err(|error: GitError| error.to_string())?;
        tip.ok_or_else(|| format!("the branch {branch} does not exist any more"))
    }
}

/// Returns the worktree in which agents worked last, and where it is kept what its repository was before.
fn find_place(
    ledger: &BacklogLedger,
    records: &[WorktreeRecord],
    layout: &Layout,
) -> Option<(WorktreeRecord, PathBuf)> {
    ledger.earlier.iter().chain(&ledger.runs).rev().find_map(|entry| {
        let found = read_run(layout, &entry.run, |_| {}).ok()?.found;
        Some((find_of(records, &found)?.clone(), layout.git(&entry.run)))
    })
}
