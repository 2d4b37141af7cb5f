//! Pushes the branch once an item is complete, before its issue says so: labels of work that is nowhere else would be all
//! that is left of it where the state goes with the machine.

use async_trait::async_trait;
use ralph_orchestrator_backlog::{Backlog, BacklogPlace};
use ralph_orchestrator_config::OnComplete;
use ralph_orchestrator_driver::WorkPublisher;
use ralph_orchestrator_engine::StopRequests;
use ralph_orchestrator_store::Layout;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::backlog::after_stop;
use super::branch_push::push_branch;
use super::branch_work::{BranchWork, Opening};
use crate::context::Context;
use crate::sandbox::SandboxPolicy;

/// Pushes the branch of a backlog of issues.
pub struct BranchPublisher {
    context: Context,
    layout: Layout,
    policy: Option<SandboxPolicy>,
    stop: StopRequests,
}

impl BranchPublisher {
    /// Returns what pushes the branch; `None` if the configuration does not ask for that, or the statuses are in a file on it.
    pub fn find(
        context: &Context,
        backlog: &dyn Backlog,
        layout: &Layout,
        (policy, stop): (Option<&SandboxPolicy>, StopRequests),
    ) -> Option<Self> {
        let is_wanted = context.loaded.config.git.on_complete == OnComplete::PullRequest
            && backlog.place() == BacklogPlace::Tracker;
        is_wanted.then(|| Self {
            context: context.clone(),
            layout: layout.clone(),
            policy: policy.cloned(),
            stop,
        })
    }
}

#[async_trait(?Send)]
impl WorkPublisher for BranchPublisher {
    async fn publish(&self) -> Result<(), String> {
        let work =
            BranchWork::find(&self.context, &self.layout).map_err(|error| error.summary())?;
        let Some(work) = work else { return Ok(()) };
        let cancel = watch::Sender::new(false);
        let opening = Opening { runtime: Handle::current(), cancelled: cancel.subscribe() };
        let (context, policy) = (self.context.clone(), self.policy.clone());
        let mut pushing = tokio::task::spawn_blocking(move || {
            let repository = work.open(&context, policy.as_ref(), opening)?;
            push_branch(&context, &work, &repository).map(drop)
        });
        let pushed = tokio::select! {
            pushed = &mut pushing => pushed,
            () = after_stop(self.stop.clone()) => {
                cancel.send_replace(true);
                pushing.await
            }
        };
        pushed.map_err(|error| error.to_string())?
    }
}
