//! Lanes: the worktrees in which items of a backlog are worked on at once, and their merges onto the branch of the run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ralph_orchestrator_backlog::{Backlog, BacklogItem};
use ralph_orchestrator_driver::{
    BranchMove, Lane, LaneMerge, LanePlaces, LaneStart, LaneTrunk, MergeProof,
};
use ralph_orchestrator_engine::{EngineError, HeldState};
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_supervisor::KillSwitch;

use super::lane_git::LaneGit;
use super::process::{Confinement, blocking};
use super::run_place::RunPlace;
use crate::backlog_view::require;
use crate::context::Context;
use crate::error::CommandError;
use crate::registry::is_one_file;
use crate::sandbox::SandboxPolicy;

/// Runs the required checks of an item on a tree that is nobody's workspace.
#[async_trait(?Send)]
pub trait MergeProver {
    /// Returns what they say of the workspace of this configuration, and what the own checks of the items say that were merged
    /// before.
    async fn prove(
        &self,
        context: &Context,
        items: (&BacklogItem, &[BacklogItem]),
    ) -> Result<MergeProof, String>;
}

/// Lanes beside the worktree of a run.
pub struct GitLanes {
    git: Arc<LaneGit>,
    prover: Box<dyn MergeProver>,
    /// One git at a time. It is held by threads only: what waits for one would hold it while it is not polled.
    alone: Arc<Mutex<()>>,
}

impl GitLanes {
    /// Returns the lanes of a run in a worktree.
    ///
    /// # Errors
    /// It has none, or its backlog is no text file.
    pub fn new(
        place: &RunPlace,
        layout: Layout,
        switch: KillSwitch,
        prover: Box<dyn MergeProver>,
    ) -> Result<Self, CommandError> {
        let context = place.context.clone();
        let refuse = |message| CommandError::at_key(&context.loaded, &["parallel", "max"], message);
        let Some(record) = place.record().cloned() else {
            return Err(refuse(
                "the run goes on in the workspace itself, and items that are worked on at once are merged onto the branch of \
                 a worktree; begin it with `run --restart`, or set `max = 1`",
            ));
        };
        let kind = context.loaded.config.backlog.as_ref().map(|backlog| backlog.kind.as_str());
        if !kind.is_some_and(is_one_file) {
            return Err(refuse(
                "a database and issues cannot be in several worktrees; use a backlog in a text file, or set `max = 1`",
            ));
        }
        let policy = SandboxPolicy::from_context(&context)?.map(SandboxPolicy::without_workspace);
        let confinement = Confinement::new(policy.as_ref(), &context);
        let git = Arc::new(LaneGit { context, layout, record, switch, confinement });
        Ok(Self { git, prover, alone: Arc::default() })
    }

    /// Returns the configuration as a run in a lane has it.
    #[must_use]
    pub fn enter(context: &Context, lane: &Lane) -> Context {
        let mut context = context.clone();
        context.loaded = context.loaded.with_workspace(&lane.paths().workspace);
        context
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LaneGit) -> Result<T, CommandError> + Send + 'static,
    ) -> Result<T, String> {
        let (git, alone) = (Arc::clone(&self.git), Arc::clone(&self.alone));
        let done = blocking(move || {
            let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
            work(&git).map_err(|error| error.detail())
        });
        done.await.map_err(|error| error.detail())?
    }
}

#[async_trait(?Send)]
impl LanePlaces for GitLanes {
    fn hold(&self) -> Result<HeldState, EngineError> {
        let context = &self.git.context;
        HeldState::take(&context.loaded, &self.git.layout, &context.state_home())
    }

    fn trunk(&self) -> LaneTrunk {
        let record = &self.git.record;
        LaneTrunk { worktree: record.run.clone(), branch: record.branch.clone() }
    }

    fn trusted_git(&self) -> PathBuf {
        self.git.trusted()
    }

    async fn prepare(&self, start: LaneStart) -> Result<(), String> {
        self.run(move |git| git.prepare(start)).await
    }

    async fn plan(&self, item: &str, before: Option<&Lane>) -> Result<Lane, String> {
        let (item, before) = (item.to_owned(), before.cloned());
        self.run(move |git| git.plan(&item, before.as_ref())).await
    }

    fn is_there(&self, lane: &Lane) -> bool {
        lane.paths().folder.join(".git").exists()
    }

    async fn open(&self, lane: &Lane) -> Result<Vec<String>, String> {
        let lane = lane.clone();
        self.run(move |git| git.open_lane(&lane)).await
    }

    async fn backlog(&self, lane: &Lane) -> Result<Arc<dyn Backlog>, String> {
        let context = Self::enter(&self.git.context, lane);
        require(&context).await.map_err(|error| error.detail())
    }

    async fn merge(&self, lane: &Lane, item: &BacklogItem) -> Result<LaneMerge, String> {
        let (lane, item) = (lane.clone(), item.clone());
        self.run(move |git| git.merge(&lane, &item)).await
    }

    async fn find_marks(&self, commit: &str, files: &[String]) -> Result<Vec<String>, String> {
        let (commit, files) = (commit.to_owned(), files.to_vec());
        self.run(move |git| git.find_marks(&commit, &files)).await
    }

    async fn prove(
        &self,
        lane: &Lane,
        items: (&BacklogItem, &[BacklogItem]),
        commit: &str,
    ) -> Result<MergeProof, String> {
        let (made, commit) = (lane.clone(), commit.to_owned());
        self.run(move |git| git.check_out(&made, &commit)).await?;
        let mut context = self.git.context.clone();
        let workspace = self.git.proof_folders(lane).workspace;
        context.loaded = context.loaded.with_workspace(&workspace);
        let proof = self.prover.prove(&context, items).await;
        let lane = lane.clone();
        self.run(move |git| git.discard_proof(&lane)).await?;
        proof
    }

    async fn take(&self, merge: &LaneMerge) -> Result<BranchMove, String> {
        let merge = merge.clone();
        self.run(move |git| git.take(&merge)).await
    }

    async fn follow(&self, lane: &Lane, merge: &LaneMerge) -> Result<(), String> {
        let (lane, merge) = (lane.clone(), merge.clone());
        self.run(move |git| git.follow(&lane, &merge)).await
    }

    async fn close(&self, lane: &Lane, at: &str) -> Result<Option<String>, String> {
        let (lane, at) = (lane.clone(), at.to_owned());
        self.run(move |git| git.close(&lane, &at)).await
    }
}
