//! A lane: the worktree and the branch in which one of several items is worked on at once, and what becomes of its work.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use ralph_orchestrator_backlog::{Backlog, BacklogItem};
use ralph_orchestrator_engine::{EngineError, HeldState};
use ralph_orchestrator_safe_fs::{escape, unescape};
use serde::{Deserialize, Serialize};

/// Where one item is worked on. Paths are stored without loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    folder: String,
    workspace: String,
    state: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The commit at which the branch begins.
    pub base: String,
}

/// The folders of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePaths {
    /// The topmost folder of its worktree.
    pub folder: PathBuf,
    /// The folder in it in which runs work.
    pub workspace: PathBuf,
    /// The state of its runs.
    pub state: PathBuf,
}

impl Lane {
    /// Returns a lane that is still to be made.
    #[must_use]
    pub fn new(paths: &LanePaths, branch: String, base: String) -> Self {
        let [folder, workspace, state] =
            [&paths.folder, &paths.workspace, &paths.state].map(|path| escape(path));
        Self { folder, workspace, state, branch, base }
    }

    /// Returns its folders.
    #[must_use]
    pub fn paths(&self) -> LanePaths {
        let [folder, workspace, state] = [&self.folder, &self.workspace, &self.state]
            .map(|path| unescape(path).unwrap_or_default());
        LanePaths { folder, workspace, state }
    }
}

/// The worktree of the run, onto whose branch the lanes are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneTrunk {
    /// Identifies the worktree among those of the state directory.
    pub worktree: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
}

/// A merge that exists as a commit and on no branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneMerge {
    /// The commit of the run's branch.
    pub ours: String,
    /// The commit of the lane's branch.
    pub theirs: String,
    /// The commit that has both.
    pub commit: String,
    /// The files in conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
}

/// What is known of lanes when a start begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStart {
    /// No agent has worked in any.
    New,
    /// The work goes on.
    Resumed,
    /// The work goes on, and the run's worktree may be on its way to a merge that is proved.
    Merging,
}

/// What the checks say of a merged tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeProof {
    /// All that are required accept.
    Accepted,
    /// They do not, and why, for the agent.
    Rejected(String),
    /// A stop was requested meanwhile.
    Interrupted,
}

/// Whether the run's branch has a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchMove {
    /// It has.
    Done,
    /// It is at another commit than when the merge was made: it has to be made again.
    Stale,
}

/// Makes and removes lanes, and merges them. What it cannot do it says in words for people.
#[async_trait(?Send)]
pub trait LanePlaces {
    /// Locks the state and the worktree of the run for as long as what is returned lives.
    fn hold(&self) -> Result<HeldState, EngineError>;

    /// Returns the worktree onto whose branch lanes are merged.
    fn trunk(&self) -> LaneTrunk;

    /// Returns the folder with what git was before any agent worked in a lane.
    fn trusted_git(&self) -> PathBuf;

    /// Makes sure that lanes can be made and merged.
    async fn prepare(&self, start: LaneStart) -> Result<(), String>;

    /// Returns the lane of an item, which begins where the run's branch is now, or on the branch of its lane `before`, whose
    /// worktree is gone. Makes nothing.
    async fn plan(&self, item: &str, before: Option<&Lane>) -> Result<Lane, String>;

    /// Returns whether the worktree of a lane is there.
    fn is_there(&self, lane: &Lane) -> bool;

    /// Makes a lane that is not there, or not whole. Returns what people should know.
    async fn open(&self, lane: &Lane) -> Result<Vec<String>, String>;

    /// Returns the backlog as the lane has it.
    async fn backlog(&self, lane: &Lane) -> Result<Arc<dyn Backlog>, String>;

    /// Merges the run's branch and the lane's into a commit that is on neither.
    async fn merge(&self, lane: &Lane, item: &BacklogItem) -> Result<LaneMerge, String>;

    /// Returns those of these files that have marks of a conflict in a commit.
    async fn find_marks(&self, commit: &str, files: &[String]) -> Result<Vec<String>, String>;

    /// Runs the required checks of an item in a clean checkout of a commit, and the own checks of those that were merged before.
    async fn prove(
        &self,
        lane: &Lane,
        items: (&BacklogItem, &[BacklogItem]),
        commit: &str,
    ) -> Result<MergeProof, String>;

    /// Moves the run's branch and its worktree to a merge. It can be repeated.
    async fn take(&self, merge: &LaneMerge) -> Result<BranchMove, String>;

    /// Moves the lane's branch and its worktree to a merge. It can be repeated.
    async fn follow(&self, lane: &Lane, merge: &LaneMerge) -> Result<(), String>;

    /// Removes a lane whose work is on the run's branch, with its branch. Returns what people should know.
    async fn close(&self, lane: &Lane, at: &str) -> Result<Option<String>, String>;
}

/// How items are worked on at once.
#[derive(Clone)]
pub struct LaneSetup {
    /// The most that are.
    pub max: usize,
    /// Makes, merges and removes the lanes.
    pub places: Rc<dyn LanePlaces>,
}
