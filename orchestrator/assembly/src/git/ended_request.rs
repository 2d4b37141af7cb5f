//! Where the next issue is worked on once the pull request of a branch was merged or closed: on a new branch, so that
//! nothing is proposed twice.

use ralph_orchestrator_backlog::NextItem;
use ralph_orchestrator_config::OnComplete;
use ralph_orchestrator_driver::{BacklogLedger, read_ledger};
use ralph_orchestrator_forge::{CodeHost, PullRequest, RequestState};
use ralph_orchestrator_git::{ObjectId, WorktreeStart};
use ralph_orchestrator_store::Layout;

use super::branch_work::{BranchWork, Opening};
use super::process::blocking;
use super::proposal::{find_client, find_host};
use crate::backlog_view::require;
use crate::context::Context;
use crate::error::CommandError;
use crate::messages;
use crate::sandbox::SandboxPolicy;

/// Returns why the next issue is worked on on a new branch, if it is: the pull request of the one that is there is not open
/// any more, has everything that is on it, and no item is in the middle.
pub(super) async fn find_ended(
    context: &Context,
    layout: &Layout,
) -> Result<Option<&'static str>, CommandError> {
    let config = &context.loaded.config;
    let kind = config.backlog.as_ref().map(|backlog| backlog.kind.as_str());
    let is_of_host = kind.and_then(CodeHost::from_name).is_some();
    if config.git.on_complete != OnComplete::PullRequest || !is_of_host {
        return Ok(None);
    }
    let ledger = read_ledger(layout)?.unwrap_or_default();
    let Some(work) = BranchWork::find(context, layout)? else { return Ok(None) };
    if ledger.unfinished().is_some() || work.record.proposed.is_none() {
        return Ok(None);
    }
    let branch = work.record.branch.clone();
    let found = match ask(context, work).await? {
        Ok(found) => found.map(|found| found.state),
        Err(problem) => {
            messages::info(&format!(
                "warning: whether the pull request of {branch} is open is not known, so the work goes on on that branch: {problem}"
            ));
            None
        }
    };
    let reason = match found {
        Some(RequestState::Merged) => "its pull request was merged",
        Some(RequestState::Closed) => "its pull request was closed",
        Some(RequestState::Open) | None => return Ok(None),
    };
    Ok(has_work(context, &ledger).await?.then_some(reason))
}

/// Returns the pull request that has everything which is on the branch, if one has.
async fn ask(
    context: &Context,
    work: BranchWork,
) -> Result<Result<Option<PullRequest>, String>, CommandError> {
    let policy = SandboxPolicy::from_context(context)?;
    let (context, opening) = (context.clone(), Opening::here());
    blocking(move || {
        let repository = work.open(&context, policy.as_ref(), opening)?;
        let tip = work.find_tip(&repository)?;
        if work.record.proposed.as_deref() != Some(tip.as_str()) {
            return Ok(None);
        }
        let remote = repository.find_remote().map_err(|error| error.to_string())?;
        let Some(remote) = remote else { return Ok(None) };
        let client = find_client(&context, &work, (find_host(&context, &remote), &remote));
        client.find_pull_request(&work.record.branch).map_err(|error| error.to_string())
    })
    .await
}

/// Whether an issue waits: without one, no branch is made.
async fn has_work(context: &Context, ledger: &BacklogLedger) -> Result<bool, CommandError> {
    let list = require(context).await?;
    // Who works on it waits for the host, or says what is wrong.
    let Ok(mut snapshot) = list.load() else { return Ok(false) };
    ledger.apply_to(&mut snapshot, ledger.is_complete());
    Ok(matches!(snapshot.select_next(), NextItem::Item { .. }))
}

/// Has a new branch begin with the newest commit of the checkout's branch at the remote, if that has what the checkout has.
pub(super) async fn follow_remote(
    context: &Context,
    layout: &Layout,
    start: &mut WorktreeStart,
) -> Result<(), CommandError> {
    let Some(branch) = start.branch.clone() else { return Ok(()) };
    let Some(work) = BranchWork::find(context, layout)? else { return Ok(()) };
    let policy = SandboxPolicy::from_context(context)?;
    let (context, base, name) = (context.clone(), start.base.clone(), branch.clone());
    let opening = Opening::here();
    let found = blocking(move || {
        let repository = work.open(&context, policy.as_ref(), opening)?;
        fetch_newer(&repository, &base, &name).map_err(|error| error.to_string())
    });
    match found.await? {
        Ok(Some(newer)) => start.base = newer,
        Ok(None) => {}
        Err(problem) => messages::info(&format!(
            "warning: {branch} was not fetched, so the new branch begins with what your checkout has: {problem}"
        )),
    }
    Ok(())
}

fn fetch_newer(
    repository: &ralph_orchestrator_git::Repository,
    base: &ObjectId,
    branch: &str,
) -> Result<Option<ObjectId>, ralph_orchestrator_git::GitError> {
    let Some(remote) = repository.find_remote()? else { return Ok(None) };
    let Some(newer) = repository.fetch_branch(&remote, branch)? else { return Ok(None) };
    Ok(repository.is_ancestor(base, &newer)?.then_some(newer))
}
